import { leadOf, type Clock } from '../../time/clock.js';
import { contentOf } from '../session/session-text.js';
import { CODE, ZookeeperRefusal } from './client/codes.js';
import { ANY_VERSION, getChildren, getData, remove, type Node } from './client/requests.js';
import type { ZookeeperSession } from './client/session.js';
import type { Documents } from './documents.js';
import { decodeName, type LockPaths } from './lock-path.js';
import { documentNames } from './names.js';
import { found } from './rows.js';
import { write } from './writes.js';
import { BELIEVED_MS } from './znode-version.js';

/** No client believes any more in the version of a document that was not written for so long. */
const IDLE_MS = 2 * BELIEVED_MS;
/** Documents that the sweeper remembers at a time, and documents that it reads or deletes in one go. */
const MOST_IDLE = 50_000;
const TOGETHER = 100;
/** A presence of another name was made by hand, and sweeps nothing. */
const SESSION_ID = /^[0-9a-f]{16}$/;

/**
 * Deletes documents that nobody holds or waits for, and the parents of their notes: those that are free, and those of which
 * all sessions are over. A document is deleted when it has not changed for ten minutes by the clock of this process, in
 * which it saw it twice.
 *
 * Only the client sweeps whose session has the least id. The others ask for the ids and do nothing else.
 */
export class ZookeeperSweeper {
  private readonly idle = new Map<string, Idle>();
  /** The last name that was looked at: the next sweep goes on behind it. */
  private after = '';

  constructor(private readonly options: SweeperOptions) {}

  async sweep(): Promise<void> {
    const { session, paths } = this.options;
    const { content: presences } = await session.send(getChildren(paths.presences));
    if (presences.names.some((id) => SESSION_ID.test(id) && id < session.id)) return this.idle.clear();
    const due = [...this.idle].filter(([, { since }]) => since <= this.now() - IDLE_MS);
    await inParts(due, ([name, idle]) => this.deleteIdle(name, idle));
    await inParts(await this.namesToSee(), (name) => this.see(name));
  }

  private async namesToSee(): Promise<readonly string[]> {
    const { session, paths } = this.options;
    const { encoded } = await documentNames(session, paths);
    const names = encoded.filter((name) => !this.idle.has(name)).sort();
    const next = names.findIndex((name) => name > this.after);
    const inTurn = next < 0 ? names : [...names.slice(next), ...names.slice(0, next)];
    const seen = inTurn.slice(0, Math.max(0, MOST_IDLE - this.idle.size));
    this.after = seen.at(-1) ?? '';
    return seen;
  }

  private async see(name: string): Promise<void> {
    const node = await this.read(name);
    if (node && (await this.isIdle(name, node)))
      this.idle.set(name, { writtenAt: node.stat.mzxid, since: this.now() });
  }

  private async deleteIdle(name: string, { writtenAt }: Idle): Promise<void> {
    this.idle.delete(name);
    const node = await this.read(name);
    if (node?.stat.mzxid !== writtenAt || !(await this.isIdle(name, node))) return;
    // A deletion would not depend on the version.
    if (node.stat.version === ANY_VERSION) return;
    const { session, paths } = this.options;
    const key = decodeName(name);
    const document = { name: 'document', operation: remove(paths.documentOf(key), node.stat.version) };
    const queue = { name: 'queue', operation: remove(paths.queueOf(key), ANY_VERSION) };
    const presence = paths.presenceOf(session.id);
    const written = await write(session, presence, [document, queue]);
    // Without a parent of notes there are none.
    if (!written.isDone && written.failed === queue && written.code === CODE.noNode) {
      await write(session, presence, [document]);
    }
  }

  /** A token of the document may be larger than the next transaction, which the token of a new document would be. */
  private async isIdle(name: string, { data, stat }: Node): Promise<boolean> {
    const { session, documents } = this.options;
    const content = contentIn(data, stat.mzxid, name);
    if (!content || content.lastToken > session.lastZxid) return false;
    const { holders, queue } = content.document;
    const sessions = [...new Set([...holders, ...queue].flatMap((entry) => entry.session ?? []))];
    return sessions.length === 0 || (await documents.endedAmong(sessions)).length === sessions.length;
  }

  private read(name: string): Promise<Node | undefined> {
    const { session, paths } = this.options;
    return found(session, getData(`${paths.documents}/${name}`));
  }

  /** Counts a suspend of the machine, which `leadOf` finds out about. */
  private now(): number {
    leadOf(this.options.clock);
    return this.options.clock.now();
  }
}

interface SweeperOptions {
  readonly session: ZookeeperSession;
  readonly paths: LockPaths;
  readonly clock: Clock;
  readonly documents: Documents;
}

interface Idle {
  /** The transaction that wrote the document. */
  readonly writtenAt: number;
  /** Our time when it was seen first. */
  readonly since: number;
}

/** @returns `undefined` for what this release has not written */
function contentIn(text: string, writtenAt: number, name: string) {
  try {
    return contentOf(text, writtenAt, name);
  } catch {
    return undefined;
  }
}

async function inParts<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += TOGETHER) {
    await Promise.all(items.slice(at, at + TOGETHER).map((item) => work(item).catch(passOver)));
  }
}

/** The sweep goes on behind a znode that this client must not read, or whose name no client has encoded. */
function passOver(error: unknown): void {
  if (!(error instanceof ZookeeperRefusal || error instanceof URIError)) throw error;
}
