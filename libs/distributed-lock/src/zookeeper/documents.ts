import type { NamePage, NameRequest } from '../document/timed-register.js';
import type {
  DocumentRow,
  Messages,
  SessionHolderEntry,
  SessionSwap,
  SessionTake,
  SessionWriteReply,
} from '../session/backend.js';
import { isFreeText } from '../session/text.js';
import { ConnectionLostError } from './client/connection.js';
import {
  ANY_VERSION,
  check,
  CODE,
  create,
  exists,
  getChildren,
  getData,
  isCreation,
  multi,
  type Operation,
  remove,
  setData,
  sync,
  ZookeeperRefusalError,
} from './client/requests.js';
import type { ZookeeperSession } from './client/session.js';
import { conditionOf, FIRST_VERSION, versionAfter, znodeVersionOf } from './failures.js';
import {
  documentNames,
  readIfExists,
  noteName,
  type Notes,
  pageOf,
  readNotes,
  readRow,
  type Znodes,
} from './lock-path.js';

/**
 * The name of a client's presence is the id of its session. A presence that somebody made by hand has another name, and no client
 * that could sweep.
 */
const SESSION_ID = /^[0-9a-f]{16}$/;

/** The documents and their notes as znodes, written under one session. */
export class Documents {
  private syncing: Promise<unknown> | undefined;

  constructor(private readonly options: Znodes) {}

  async take(take: SessionTake): Promise<SessionWriteReply> {
    const { name, seen, notes } = take;
    let row: DocumentRow | undefined;
    if (seen?.isFree !== false) {
      const taken = await this.takeFree(take);
      if (taken) return { isDone: true, row: taken };
      row = await readRow(this.options, name);
    } else if (notes.length === 0) row = await this.read(name);
    // If the document is free, the next write of this client swaps it, so that no note is needed.
    if (row && (notes.length === 0 || isFree(row))) return notDone(row);
    return notDone(await this.leaveNotes(take));
  }

  async swap(swap: SessionSwap): Promise<SessionWriteReply> {
    const { name, failOnUnreadNotes, messages } = swap;
    const version = versionAfter(swap.version);
    let mailboxes = this.mailParts(messages, version);
    const written = await this.writeRepaired({
      parts: () => [...this.swapParts(swap), ...mailboxes],
      read: () => (failOnUnreadNotes ? undefined : readNotes(this.options, name)),
      repair: ({ failed, code }) => {
        // A client without a mailbox is gone, and a mailbox of another `auth` refuses the message. The other clients must be notified.
        const isOfClient = failed.name === 'mailbox' && (code === CODE.noNode || code === CODE.noAuth);
        if (isOfClient) mailboxes = mailboxes.filter((mailbox) => mailbox !== failed);
        return isOfClient;
      },
    });
    if (!written.isDone) {
      this.checkLost(written);
      return notDone(await readRow(this.options, name));
    }
    // A swap with `failOnUnreadNotes` has merged all notes, and has made their parent if there was none.
    const none = {
      notes: [],
      notesRead: Math.max(swap.notesRead, FIRST_VERSION),
      nextTicket: swap.nextTicket,
    };
    const notes = readBehindWrite(written.reading) ?? none;
    return { isDone: true, row: rowAfter(swap, { version, zxid: written.zxid, notes }) };
  }

  /** The newest document. */
  async read(name: string): Promise<DocumentRow> {
    const [, row] = await Promise.all([this.catchUp(), readRow(this.options, name)]);
    return row;
  }

  async endedAmong(sessions: readonly string[]): Promise<readonly string[]> {
    const [, ...presences] = await Promise.all([
      this.catchUp(),
      ...sessions.map((id) => readIfExists(this.options.session, exists(this.options.paths.presenceOf(id)))),
    ]);
    return sessions.filter((_, i) => !presences[i]);
  }

  async list(request: NameRequest): Promise<NamePage> {
    const [, names] = await Promise.all([this.catchUp(), documentNames(this.options)]);
    return pageOf(names, request);
  }

  async firstSession(): Promise<string | undefined> {
    const { session, paths } = this.options;
    const { content: presences } = await session.send(getChildren(paths.presences));
    return presences.names.filter((id) => SESSION_ID.test(id)).sort()[0];
  }

  async remove({ name, version }: DocumentRow): Promise<void> {
    const { session, paths } = this.options;
    const path = paths.documentOf(name);
    const document: Part = {
      name: 'document',
      operation: remove(path, conditionOf(path, version as number)),
    };
    const queue: Part = { name: 'queue', operation: remove(paths.queueOf(name), ANY_VERSION) };
    const presence = paths.presenceOf(session.id);
    const written = await write(session, presence, [document, queue]);
    // If the parent of the notes does not exist, there are no notes to delete.
    const hasNoQueue = !written.isDone && written.failed === queue && written.code === CODE.noNode;
    if (hasNoQueue) await write(session, presence, [document]);
  }

  async publishHolderEntry({ clientId, text }: Omit<SessionHolderEntry, 'session'>): Promise<void> {
    const { session, paths, acl } = this.options;
    const path = paths.holderEntryOf(clientId);
    // A znode that exists may belong to an earlier session of this client, and would end with that.
    const removed = session.send(multi([remove(path, ANY_VERSION)]));
    if (text === undefined) {
      await removed;
      return;
    }
    const creation = multi([create(path, { acl, data: text, isEphemeral: true })]);
    const [{ content }] = await Promise.all([session.send(creation), removed]);
    if (content.isDone) return;
    if (content.code !== CODE.noNode) throw new ZookeeperRefusalError(content.code);
    await this.makeParents();
    await session.send(creation);
  }

  async readHolderEntries(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    const { session, paths } = this.options;
    const [, ...nodes] = await Promise.all([
      this.catchUp(),
      ...clientIds.map((clientId) => readIfExists(session, getData(paths.holderEntryOf(clientId)))),
    ]);
    return nodes.map((node) => node?.data);
  }

  /** Writes a message into the clients' mailboxes. A client that is gone has no mailbox, and need not be notified. */
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
      if (!content.isDone && content.code !== CODE.nodeExists) throw new ZookeeperRefusalError(content.code);
    }
  }

  // --- taken ----------------------------------------------------------------------------------------------------

  /** @returns the row; `undefined` when the document has changed */
  private async takeFree(take: SessionTake): Promise<DocumentRow | undefined> {
    const { name, seen, text } = take;
    const { paths, acl } = this.options;
    const path = paths.documentOf(name);
    const isNew = seen?.version === undefined;
    const operation = isNew
      ? create(path, { acl, data: text })
      : setData(path, text, conditionOf(path, seen.version));
    const document: Part = { name: 'document', operation };
    /** The parent of the notes was left over from a document that was deleted by hand, and may have notes. */
    let hasQueue = false;
    const written = await this.writeRepaired({
      parts: () => (isNew && !hasQueue ? [document, this.queuePart(name)] : [document]),
      read: () => (hasQueue ? readNotes(this.options, name) : undefined),
      repair: ({ failed, code }) => {
        const queueExists = failed.name === 'queue' && code === CODE.nodeExists;
        hasQueue ||= queueExists;
        return queueExists;
      },
    });
    if (!written.isDone) {
      this.checkLost(written);
      return undefined;
    }
    const { zxid } = written;
    const known = isNew ? { notesRead: FIRST_VERSION, nextTicket: zxid + 1 } : seen;
    const { notesRead, nextTicket = zxid + 1 } = known;
    const notes = readBehindWrite(written.reading) ?? { notes: [], notesRead, nextTicket };
    return rowAfter(take, { version: versionAfter(seen?.version), zxid, notes });
  }

  /** Leaves the notes beside the document, if there is one. @returns the row with them */
  private async leaveNotes({ name, notes }: SessionTake): Promise<DocumentRow> {
    const { paths, acl } = this.options;
    const queue = paths.queueOf(name);
    const document: Part = { name: 'document', operation: check(paths.documentOf(name), ANY_VERSION) };
    const parts: Parts = [
      ...notes.map((text) => ({
        name: 'note' as const,
        operation: create(`${queue}/${noteName(text)}`, { acl, isEphemeral: true, isSequential: true }),
      })),
      // Raises the version of the parent, so that a swap with `failOnUnreadNotes` by another client fails.
      { name: 'queue', operation: setData(queue, '', ANY_VERSION) },
    ];
    let isQueueMissing = false;
    const written = await this.writeRepaired({
      parts: () => [document, ...(isQueueMissing ? [this.queuePart(name)] : []), ...parts],
      read: () => readRow(this.options, name),
      repair({ failed, code }) {
        const isMissing = failed.name === 'note' && code === CODE.noNode;
        const queueExists = failed.name === 'queue' && code === CODE.nodeExists;
        isQueueMissing = isMissing || (isQueueMissing && !queueExists);
        return isMissing || queueExists;
      },
    });
    if (written.isDone) return readBehindWrite(written.reading);
    const { failed, code } = written;
    if (failed.name === 'document' && code === CODE.noNode) return valueOrThrow(written.reading);
    throw new ZookeeperRefusalError(code);
  }

  private queuePart(name: string): Part {
    const { paths, acl } = this.options;
    return { name: 'queue', operation: create(paths.queueOf(name), { acl }) };
  }

  // --- swapped --------------------------------------------------------------------------------------------------

  private swapParts({ name, version, text, failOnUnreadNotes, notesRead, mergedNotes }: SessionSwap): Parts {
    const { paths, acl } = this.options;
    const queue = paths.queueOf(name);
    const path = paths.documentOf(name);
    const document =
      version === undefined
        ? create(path, { acl, data: text })
        : setData(path, text, conditionOf(path, version));
    const noMore: Part =
      notesRead === 0
        ? this.queuePart(name)
        : { name: 'queue', operation: check(queue, znodeVersionOf(notesRead)) };
    return [
      { name: 'document', operation: document },
      ...(failOnUnreadNotes ? [noMore] : []),
      ...mergedNotes.map((id) => ({
        name: 'note' as const,
        operation: remove(`${queue}/${id}`, ANY_VERSION),
      })),
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

  /**
   * Sends a write, and a reading right behind it. If something made the write fail that can be repaired, repairs it and
   * writes again: the parents of all znodes if they are missing, and whatever `repair` knows of.
   *
   * @param read gives `undefined` where nothing is to be read
   * @param repair whether `parts` gives other parts from now on
   */
  private writeRepaired<Reading>({ parts, read, repair }: Repaired<Reading>): Promise<Behind<Reading>> {
    const { session, paths } = this.options;
    return writeRepeatedly<Behind<Reading>>(
      async () => {
        const all = parts();
        const sent = [write(session, paths.presenceOf(session.id), all), read()] as const;
        const [written, reading] = await Promise.allSettled(sent);
        return { ...valueOrThrow(written), reading };
      },
      async (failure) => {
        if (repair(failure)) return true;
        if (failure.code !== CODE.noNode || !isCreation(failure.failed.operation)) return false;
        await this.makeParents();
        return true;
      },
      parts().length,
    );
  }

  /** @throws ZookeeperRefusalError unless the write failed because another client has written first */
  private checkLost({ code }: NotWritten): void {
    if (code !== CODE.noNode && code !== CODE.badVersion && code !== CODE.nodeExists) {
      throw new ZookeeperRefusalError(code);
    }
  }

  /** Makes the server catch up with the leader. One request serves all readings of one turn of the event loop. */
  private catchUp(): Promise<unknown> {
    if (!this.syncing) {
      this.syncing = this.options.session.send(sync(this.options.paths.base));
      process.nextTick(() => (this.syncing = undefined));
    }
    return this.syncing;
  }
}

type Parts = readonly Part[];
type NotWritten = Extract<WriteResult, { readonly isDone: false }>;
type Behind<Reading> = WriteResult & { readonly reading: PromiseSettledResult<Reading> };

interface Repaired<Reading> {
  readonly parts: () => Parts;
  readonly read: () => Promise<Reading> | Reading;
  readonly repair: (failure: NotWritten) => boolean;
}

function rowAfter(
  { name, text }: SessionTake | SessionSwap,
  { version, zxid, notes }: { readonly version: number; readonly zxid: number; readonly notes: Notes },
): DocumentRow {
  return { name, version, text, writtenAt: zxid, revision: zxid, ...notes };
}

function isFree({ version, text, notes }: DocumentRow): boolean {
  return version === undefined || (notes.length === 0 && text !== null && isFreeText(text));
}

function notDone(row: DocumentRow): SessionWriteReply {
  return { isDone: false, row };
}

/** Somebody has deleted the presence of this client's session by hand, so other clients take over what it holds. */
export class PresenceMissingError extends Error {}

/** One operation of a write, and a name for its failure. */
interface Part {
  readonly name: 'document' | 'queue' | 'note' | 'mailbox';
  readonly operation: Operation;
}

type WriteResult =
  | { readonly isDone: true; readonly zxid: number }
  /** Nothing was executed, because the operation of this name failed. */
  | { readonly isDone: false; readonly failed: Part; readonly index: number; readonly code: number };

/**
 * Executes all operations or none, if the session is still present.
 *
 * @throws PresenceMissingError, and what `ZookeeperSession.send` throws
 */
async function write(
  session: ZookeeperSession,
  presence: string,
  parts: readonly Part[],
): Promise<WriteResult> {
  const operations = [check(presence, ANY_VERSION), ...parts.map(({ operation }) => operation)];
  const { content, zxid } = await session.send(multi(operations));
  if (content.isDone) return { isDone: true, zxid };
  const { code } = content;
  const index = content.index - 1;
  const failed = parts[index];
  if (failed) return { isDone: false, failed, index, code };
  throw code === CODE.noNode ? new PresenceMissingError() : new ZookeeperRefusalError(code);
}

/** A write is repeated at most this often, plus once for each of its operations. */
const MAX_REPAIRS = 3;

/**
 * Writes. If that fails, and `repair` mends the cause, writes again.
 *
 * @param repair returns whether it has mended something
 * @param operations the number of operations of the write
 */
export async function writeRepeatedly<Result extends { readonly isDone: boolean }>(
  writeOnce: () => Promise<Result>,
  repair: (failure: Extract<Result, { readonly isDone: false }>) => Promise<boolean>,
  operations: number,
): Promise<Result> {
  for (let repairs = 0; ; repairs++) {
    const result = await writeOnce();
    if (result.isDone || repairs === MAX_REPAIRS + operations) return result;
    if (!(await repair(result as Extract<Result, { readonly isDone: false }>))) return result;
  }
}

/** @throws the error of a request that failed */
function valueOrThrow<Value>(settled: PromiseSettledResult<Value>): Value {
  if (settled.status === 'rejected') throw settled.reason;
  return settled.value;
}

/**
 * The reading that was sent behind an executed write.
 *
 * @throws ConnectionLostError for any failure of the reading, because the error of a refusal would say that the write was
 * refused
 */
function readBehindWrite<Value>(reading: PromiseSettledResult<Value>): Value {
  if (reading.status === 'rejected') throw new ConnectionLostError(reading.reason as Error);
  return reading.value;
}
