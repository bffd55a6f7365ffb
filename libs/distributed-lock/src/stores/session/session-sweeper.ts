import { inBackground } from '../../async-context/in-background.js';
import { LockKeyError, LockStoreError } from '../../port/lock.errors.js';
import { randomMs, type Chance } from '../../time/chance.js';
import type { Clock } from '../../time/clock.js';
import type { DocumentRow, SessionBackend } from './session-backend.js';
import { contentOf } from './session-text.js';

/** Each process sweeps at its own random times, in ms. */
const SWEEP_MS = { least: 5 * 60_000, spread: 5 * 60_000 };
/**
 * A document is deleted when it was not written for this long, in ms. By then no client relies on its version
 * (`SessionBackend.believedMs`).
 */
export const SWEPT_AFTER_MS = 10 * 60_000;
/** How many documents the sweeper remembers, and how many it reads or deletes at a time. */
const MAX_IDLE = 50_000;
const TOGETHER = 100;

/**
 * Deletes documents that nobody holds or waits for: a free document, or one whose sessions are all over. A document
 * is deleted when this process has found it unchanged twice, at least ten minutes apart by its own clock.
 *
 * Only the client whose session has the least id sweeps. The other clients read that id and do nothing else.
 */
export class SessionSweeper {
  private readonly idle = new Map<string, Idle>();
  /** The name after which the next sweep begins. */
  private after: string | undefined;
  private cancel = (): void => undefined;

  /** @param ownSession the id of the session of this client, while there is one */
  constructor(
    private readonly backend: SweptBackend,
    private readonly clock: Clock,
    private readonly ownSession: () => string | undefined,
  ) {}

  /** A sweep that fails is not repeated, because the next one does the same work. */
  start(chance: Chance): void {
    this.cancel = this.clock.after(randomMs(chance, SWEEP_MS), () => {
      this.start(chance);
      inBackground(this.sweep(), () => undefined);
    });
  }

  stop(): void {
    this.cancel();
  }

  /** Forgets what was seen, because after a restore of the back end an earlier write may be there again. */
  forget(): void {
    this.idle.clear();
  }

  async sweep(): Promise<void> {
    const own = this.ownSession();
    if (own === undefined || (await this.backend.firstSession()) !== own) return this.forget();
    const due = [...this.idle].filter(([, { since }]) => since <= this.clock.now() - SWEPT_AFTER_MS);
    await inParts(due, ([name, idle]) => this.deleteIdle(name, idle));
    const { names, after } = await this.backend.list({ prefix: '', after: this.after, most: MAX_IDLE });
    this.after = after;
    const fresh = names.filter((name) => !this.idle.has(name));
    await inParts(fresh.slice(0, MAX_IDLE - this.idle.size), async (name) => {
      const row = await this.backend.read(name);
      if (await this.isIdle(row)) this.idle.set(name, { writtenAt: row.writtenAt, since: this.clock.now() });
    });
  }

  private async deleteIdle(name: string, { writtenAt }: Idle): Promise<void> {
    this.idle.delete(name);
    const row = await this.backend.read(name);
    if (row.writtenAt === writtenAt && (await this.isIdle(row))) await this.backend.remove(row);
  }

  /** A document made anew takes its tokens from the next revision, so a document with a larger last token is not idle. */
  private async isIdle({ name, text, writtenAt, revision, notes }: DocumentRow): Promise<boolean> {
    if (text === null || notes.length > 0) return false;
    const { document, lastToken } = contentOf(text, writtenAt, name);
    if (lastToken > revision) return false;
    const entries = [...document.holders, ...document.queue];
    const sessions = [...new Set(entries.flatMap(({ session }) => session ?? []))];
    return sessions.length === 0 || (await this.backend.endedAmong(sessions)).length === sessions.length;
  }
}

type SweptBackend = Pick<SessionBackend, 'firstSession' | 'list' | 'read' | 'endedAmong' | 'remove'>;

interface Idle {
  /** The revision that wrote the document. */
  readonly writtenAt: number;
  /** Our time when it was seen first. */
  readonly since: number;
}

async function inParts<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += TOGETHER)
    await Promise.all(items.slice(at, at + TOGETHER).map((item) => work(item).catch(passOver)));
}

/** The sweep goes on behind a document that this client may not read, or that another program has written. */
function passOver(error: unknown): void {
  const isOfDocument =
    error instanceof LockStoreError ? error.reason === 'refused' : error instanceof LockKeyError;
  if (!isOfDocument) throw error;
}
