import type { Clock } from '../../time/clock.js';
import type {
  Messages,
  Row,
  SessionWriteReply,
  SessionSwap,
  SessionTake,
} from '../session/session-backend.js';
import { isFreeText } from '../session/session-text.js';
import { CODE, ZookeeperRefusal } from './client/codes.js';
import {
  ANY_VERSION,
  check,
  create,
  exists,
  multi,
  remove,
  setData,
  sync,
  type Acl,
} from './client/requests.js';
import type { ZookeeperSession } from './client/session.js';
import { KnownRows } from './known-rows.js';
import { noteName, type LockPaths } from './lock-path.js';
import { readNotes, readRow, type Notes } from './rows.js';
import { readBehindWrite, valueOf, write, type Part, type Written } from './writes.js';
import { conditionOf, FIRST_VERSION, versionAfter, znodeVersionOf } from './znode-version.js';
import { isCode } from './zookeeper.errors.js';

type PartName = 'document' | 'queue' | 'note' | 'mailbox';
type Parts = readonly Part<PartName>[];
type NotWritten = Extract<Written<PartName>, { readonly isDone: false }>;

interface DocumentsOptions {
  readonly session: ZookeeperSession;
  readonly paths: LockPaths;
  readonly acl: Acl;
  readonly clock: Clock;
}

/** A parent that is missing is made, and the write repeated, so often at most. */
const MOST_REPAIRS = 3;

/** The documents and their notes as znodes, written under one session. */
export class Documents {
  readonly known: KnownRows;
  private syncing: Promise<unknown> | undefined;

  constructor(private readonly options: DocumentsOptions) {
    this.known = new KnownRows(options.clock);
  }

  async take(take: SessionTake): Promise<SessionWriteReply> {
    const { name, version, notes } = take;
    const known = this.known.get(name);
    const isEmptied = version !== undefined && known?.version === version;
    const isUnknown = version === undefined && known?.version === undefined && !this.known.isOld(name);
    let row: Row | undefined;
    if (isEmptied || isUnknown) {
      const taken = isEmptied ? await this.takeEmptied(take) : await this.createDocument(take);
      if (taken) return { isDone: true, row: taken };
      row = await this.readBehind(name);
    } else if (notes.length === 0 || known?.isFree !== false) row = await this.read(name);
    // The next write swaps a free document, so that no note is needed.
    if (row && (notes.length === 0 || isFree(row))) return notDone(row);
    return notDone(await this.leaveNotes(take));
  }

  async swap(swap: SessionSwap): Promise<SessionWriteReply> {
    const { name } = swap;
    if (this.known.isOld(name)) {
      const row = await this.read(name);
      if (row.version !== swap.version) return notDone(row);
    }
    let { clients } = swap.messages;
    for (let repairs = 0; ;) {
      const mailboxes = this.mailParts({ ...swap.messages, clients }, versionAfter(swap.version));
      const [write, reading] = await Promise.allSettled([
        this.write([...this.swapParts(swap), ...mailboxes]),
        swap.isExact ? undefined : this.readNotes(name),
      ]);
      const written = valueOf(write);
      if (written.isDone) {
        const row = swappedRow(swap, written.zxid, readBehindWrite(reading));
        return { isDone: true, row: this.see(row) };
      }
      const { failed, code } = written;
      // That client is gone, or has an `auth` that this one has not. The others must hear of the write.
      if (failed.name === 'mailbox' && (code === CODE.noNode || code === CODE.noAuth)) {
        clients = clients.filter((_, i) => mailboxes[i] !== failed);
        continue;
      }
      if (swap.version !== undefined || code !== CODE.noNode || repairs++ === MOST_REPAIRS) {
        this.checkLost(written);
        return notDone(await this.readBehind(name));
      }
      await this.makeParents();
    }
  }

  /** The newest document. */
  async read(name: string): Promise<Row> {
    const [, row] = await Promise.all([this.catchUp(), this.readBehind(name)]);
    return row;
  }

  async endedAmong(sessions: readonly string[]): Promise<readonly string[]> {
    const [, ...arePresent] = await Promise.all([
      this.catchUp(),
      ...sessions.map((session) => this.isThere(this.options.paths.presenceOf(session))),
    ]);
    return sessions.filter((_, i) => !arePresent[i]);
  }

  /** A client that is gone has no mailbox, and need not hear of anything. */
  async tell(messages: Messages): Promise<void> {
    const { session } = this.options;
    await Promise.all(this.mailParts(messages, 0).map(({ operation }) => session.send(multi([operation]))));
  }

  /** Makes the znodes under which all others are. */
  async makeParents(): Promise<void> {
    const { session, paths, acl } = this.options;
    const replies = await Promise.all(
      paths.parents.map((path) => session.send(multi([create(path, { acl })]))),
    );
    for (const { content } of replies) {
      if (!content.isDone && content.code !== CODE.nodeExists) throw new ZookeeperRefusal(content.code);
    }
  }

  // --- taken ----------------------------------------------------------------------------------------------------

  /** @returns `undefined` when the document exists */
  private async createDocument(take: SessionTake): Promise<Row | undefined> {
    let hasQueue = false;
    for (let repairs = 0; ; repairs++) {
      const written = await this.write(this.takeParts(take, hasQueue));
      if (written.isDone) return this.takenRow(take, written.zxid, hasQueue);
      const { failed, code } = written;
      if (code === CODE.nodeExists && failed.name === 'document') return undefined;
      if (repairs === MOST_REPAIRS) throw new ZookeeperRefusal(code);
      if (code === CODE.nodeExists) hasQueue = true;
      else if (code === CODE.noNode) await this.makeParents();
      else throw new ZookeeperRefusal(code);
    }
  }

  /** @returns `undefined` when the document has changed */
  private async takeEmptied(take: SessionTake): Promise<Row | undefined> {
    const written = await this.write(this.takeParts(take, true));
    if (written.isDone) return this.takenRow(take, written.zxid, false);
    this.checkLost(written);
    return undefined;
  }

  /** @param hasQueue the parent of the notes exists already */
  private takeParts({ name, version, text }: SessionTake, hasQueue: boolean): Parts {
    const { paths, acl } = this.options;
    const path = paths.documentOf(name);
    if (version !== undefined) {
      return [{ name: 'document', operation: setData(path, text, conditionOf(path, version)) }];
    }
    const document = { name: 'document', operation: create(path, { acl, data: text }) } as const;
    return hasQueue ? [document] : [document, this.queuePart(name)];
  }

  /** @param mayHaveNotes the parent of the notes was there before the document */
  private async takenRow(
    { name, version, text }: SessionTake,
    zxid: number,
    mayHaveNotes: boolean,
  ): Promise<Row> {
    const known = this.known.get(name);
    const notes: Notes = mayHaveNotes
      ? readBehindWrite((await Promise.allSettled([this.readNotes(name)]))[0])
      : version !== undefined && known
        ? { notes: [], notesRead: known.notesRead, nextTicket: known.nextTicket }
        : { notes: [], notesRead: FIRST_VERSION, nextTicket: zxid + 1 };
    return this.see({
      name,
      version: versionAfter(version),
      text,
      writtenAt: zxid,
      revision: zxid,
      ...notes,
    });
  }

  /** Leaves the notes beside the document, if there is one. @returns the row with them */
  private async leaveNotes({ name, notes }: SessionTake): Promise<Row> {
    const { paths, acl } = this.options;
    const queue = paths.queueOf(name);
    const document: Part<PartName> = {
      name: 'document',
      operation: check(paths.documentOf(name), ANY_VERSION),
    };
    const parts: Parts = [
      ...notes.map((text) => ({
        name: 'note' as const,
        operation: create(`${queue}/${noteName(text)}`, { acl, isEphemeral: true, isSequential: true }),
      })),
      // An exact swap of others must see that there are more.
      { name: 'queue', operation: setData(queue, '', ANY_VERSION) },
    ];
    let isQueueMissing = false;
    for (let repairs = 0; ; repairs++) {
      const [write, reading] = await Promise.allSettled([
        this.write([document, ...(isQueueMissing ? [this.queuePart(name)] : []), ...parts]),
        this.readBehind(name),
      ]);
      const written = valueOf(write);
      if (written.isDone) return readBehindWrite(reading);
      const { failed, code } = written;
      if (failed.name === 'document' && code === CODE.noNode) return valueOf(reading);
      if (repairs === MOST_REPAIRS) throw new ZookeeperRefusal(code);
      if (failed.name === 'note' && code === CODE.noNode) isQueueMissing = true;
      else if (code === CODE.nodeExists) isQueueMissing = false;
      else if (code === CODE.noNode) await this.makeParents();
      else throw new ZookeeperRefusal(code);
    }
  }

  private queuePart(name: string): Part<PartName> {
    const { paths, acl } = this.options;
    return { name: 'queue', operation: create(paths.queueOf(name), { acl }) };
  }

  // --- swapped --------------------------------------------------------------------------------------------------

  private swapParts({ name, version, text, isExact, notesRead, takenIn }: SessionSwap): Parts {
    const { paths, acl } = this.options;
    const queue = paths.queueOf(name);
    const path = paths.documentOf(name);
    const document =
      version === undefined
        ? create(path, { acl, data: text })
        : setData(path, text, conditionOf(path, version));
    const noMore: Part<PartName> =
      notesRead === 0
        ? this.queuePart(name)
        : { name: 'queue', operation: check(queue, znodeVersionOf(notesRead)) };
    return [
      { name: 'document', operation: document },
      ...(isExact ? [noMore] : []),
      ...takenIn.map((id) => ({ name: 'note' as const, operation: remove(`${queue}/${id}`, ANY_VERSION) })),
    ];
  }

  private mailParts({ clients, text }: Messages, version: number): Parts {
    if (clients.length === 0) return [];
    const { paths } = this.options;
    const message = text(version, 0);
    return clients.map((client) => ({
      name: 'mailbox',
      operation: setData(paths.mailboxOf(client), message, ANY_VERSION),
    }));
  }

  // --- common ---------------------------------------------------------------------------------------------------

  private write(parts: Parts): Promise<Written<PartName>> {
    const { session, paths } = this.options;
    return write(session, paths.presenceOf(session.id), parts);
  }

  /** Somebody else was first. @throws ZookeeperRefusal when the write failed for something else */
  private checkLost({ code }: NotWritten): void {
    if (code !== CODE.noNode && code !== CODE.badVersion && code !== CODE.nodeExists) {
      throw new ZookeeperRefusal(code);
    }
  }

  /** A reading that sees what this session has written before. */
  private async readBehind(name: string): Promise<Row> {
    return this.see(await readRow(this.options.session, this.options.paths, name));
  }

  private readNotes(name: string): Promise<Notes> {
    return readNotes(this.options.session, this.options.paths, name);
  }

  /** The server catches up with the leader, once for all readings of one turn. */
  private catchUp(): Promise<unknown> {
    if (!this.syncing) {
      this.syncing = this.options.session.send(sync(this.options.paths.base));
      process.nextTick(() => (this.syncing = undefined));
    }
    return this.syncing;
  }

  private async isThere(path: string): Promise<boolean> {
    try {
      await this.options.session.send(exists(path));
      return true;
    } catch (error) {
      if (isCode(error, CODE.noNode)) return false;
      throw error;
    }
  }

  private see(row: Row): Row {
    this.known.see(row);
    return row;
  }
}

function swappedRow(swap: SessionSwap, zxid: number, notes: Notes | undefined): Row {
  const { name, text, nextTicket } = swap;
  // An exact swap has taken all notes in. It makes a parent for them where there was none.
  const none = { notes: [], notesRead: Math.max(swap.notesRead, FIRST_VERSION), nextTicket };
  return {
    name,
    version: versionAfter(swap.version),
    text,
    writtenAt: zxid,
    revision: zxid,
    ...(notes ?? none),
  };
}

function isFree({ version, text, notes }: Row): boolean {
  return version === undefined || (notes.length === 0 && text !== null && isFreeText(text));
}

function notDone(row: Row): SessionWriteReply {
  return { isDone: false, row };
}
