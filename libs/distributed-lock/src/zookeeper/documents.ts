import type {
  StoredDocument,
  Messages,
  SessionHolderEntry,
  SessionSwap,
  SessionTake,
  SessionWriteReply,
} from '../session/backend.js';
import { isFreeJson } from '../session/json.js';
import {
  ANY_VERSION,
  CODE,
  ConnectionLostError,
  Operation,
  Request,
  ZookeeperError,
  ZookeeperRefusalError,
} from './client/protocol.js';
import { FIRST_VERSION, type Znodes } from './znodes.js';

/**
 * Writes documents, and the notes that waiting clients leave beside them, as znodes under one session. See
 * docs/document-stores.md.
 */
export class Documents {
  constructor(private readonly znodes: Znodes) {}

  async take(take: SessionTake): Promise<SessionWriteReply> {
    const { name, seen, notes } = take;
    let row: StoredDocument | undefined;
    if (seen?.isFree !== false) {
      const taken = await this.takeFree(take);
      if (taken) return { isDone: true, row: taken };
      row = await this.znodes.rowOf(name);
    } else if (notes.length === 0) row = await this.znodes.read(name);
    // If the document is free, leave no notes: this client is about to write the document itself, with a swap.
    if (row && (notes.length === 0 || isFree(row))) return notDone(row);
    return notDone(await this.leaveNotes(take));
  }

  async swap(swap: SessionSwap): Promise<SessionWriteReply> {
    const { name, failOnUnreadNotes, messages } = swap;
    const version = versionAfter(swap.version);
    let mailboxes = this.mailParts(messages, version);
    const written = await this.writeRepaired({
      parts: () => [...this.swapParts(swap), ...mailboxes],
      read: () => (failOnUnreadNotes ? undefined : this.znodes.notesOf(name)),
      repair: ({ failed, code }) => {
        // Leave this client's mailbox out and write again, or the other clients would get no message. `noNode`: the client is
        // gone. `noAuth`: its mailbox belongs to clients with another `auth`.
        const isOfClient = failed.name === 'mailbox' && (code === CODE.noNode || code === CODE.noAuth);
        if (isOfClient) mailboxes = mailboxes.filter((mailbox) => mailbox !== failed);
        return isOfClient;
      },
    });
    if (!written.isDone) {
      this.checkLost(written);
      return notDone(await this.znodes.rowOf(name));
    }
    // After a swap with `failOnUnreadNotes` there are no notes to read: if the swap had not merged all of them into the document,
    // it would have failed. If the notes had no parent znode, the swap has created that, so the parent's version is at least
    // `FIRST_VERSION`.
    const none = {
      notes: [],
      notesRead: Math.max(swap.notesRead, FIRST_VERSION),
      nextTicket: swap.nextTicket,
    };
    const notes = readBehindWrite(written.reading) ?? none;
    return { isDone: true, row: rowAfter(swap, { version, zxid: written.zxid, ...notes }) };
  }

  async remove({ name, version }: StoredDocument): Promise<void> {
    const { paths } = this.znodes;
    const path = paths.documentOf(name);
    const operation = Operation.remove(path, conditionOf(path, version as number));
    const document: Part = { name: 'document', operation };
    const queue: Part = { name: 'queue', operation: Operation.remove(paths.queueOf(name), ANY_VERSION) };
    const written = await this.write([document, queue]);
    // If the parent znode of the notes does not exist, there are no notes. Delete only the document.
    const hasNoQueue = !written.isDone && written.failed === queue && written.code === CODE.noNode;
    if (hasNoQueue) await this.write([document]);
  }

  async publishHolderEntry({ clientId, text }: Omit<SessionHolderEntry, 'session'>): Promise<void> {
    const { session, paths, acl } = this.znodes;
    const path = paths.holderEntryOf(clientId);
    // Remove an entry first that an earlier session of this client has left: it would be deleted at the end of that session.
    const removed = session.send(Request.multi([Operation.remove(path, ANY_VERSION)]));
    if (text === undefined) {
      await removed;
      return;
    }
    const creation = Request.multi([Operation.create(path, { acl, data: text, isEphemeral: true })]);
    const [{ content }] = await Promise.all([session.send(creation), removed]);
    if (content.isDone) return;
    if (content.code !== CODE.noNode) throw new ZookeeperRefusalError(content.code);
    await this.makeParents();
    await session.send(creation);
  }

  /** Writes a message into the mailboxes of these clients. Ignores a client without a mailbox: it is gone. */
  async tell(messages: Messages): Promise<void> {
    const { session } = this.znodes;
    await Promise.all(
      this.mailParts(messages, 0).map(({ operation }) => session.send(Request.multi([operation]))),
    );
  }

  /** Creates the top znodes under which this store creates all others. */
  async makeParents(): Promise<void> {
    const { session, paths, acl } = this.znodes;
    const replies = await Promise.all(
      paths.parents.map((path) => session.send(Request.multi([Operation.create(path, { acl })]))),
    );
    for (const { content } of replies) {
      if (!content.isDone && content.code !== CODE.nodeExists) throw new ZookeeperRefusalError(content.code);
    }
  }

  /**
   * Writes the document of a lock that was free when this client saw it, or does not exist.
   *
   * @returns the row; `undefined` if another client has written the document first
   */
  private async takeFree(take: SessionTake): Promise<StoredDocument | undefined> {
    const { name, seen, text } = take;
    const isNew = seen?.version === undefined;
    const document = this.documentPart(name, text, seen?.version);
    /**
     * The parent znode of the notes exists although the document is new: somebody deleted the document by hand. There may be
     * notes under it.
     */
    let hasQueue = false;
    const written = await this.writeRepaired({
      parts: () => (isNew && !hasQueue ? [document, this.queuePart(name)] : [document]),
      read: () => (hasQueue ? this.znodes.notesOf(name) : undefined),
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
    return rowAfter(take, { version: versionAfter(seen?.version), zxid, ...notes });
  }

  /**
   * Creates the notes if the document exists.
   *
   * @returns the document with all its notes
   */
  private async leaveNotes({ name, notes }: SessionTake): Promise<StoredDocument> {
    const { paths, acl } = this.znodes;
    const document: Part = {
      name: 'document',
      operation: Operation.check(paths.documentOf(name), ANY_VERSION),
    };
    const parts: Parts = [
      ...notes.map((text) => ({
        name: 'note' as const,
        operation: Operation.create(paths.noteOf(name, text), { acl, isEphemeral: true, isSequential: true }),
      })),
      // Raise the version of the notes' parent. A swap of another client with `failOnUnreadNotes` compares it, and so fails
      // because of these notes.
      { name: 'queue', operation: Operation.setData(paths.queueOf(name), '', ANY_VERSION) },
    ];
    let isQueueMissing = false;
    const written = await this.writeRepaired({
      parts: () => [document, ...(isQueueMissing ? [this.queuePart(name)] : []), ...parts],
      read: () => this.znodes.rowOf(name),
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

  /** Creates the document, or writes it if it still has this version. */
  private documentPart(name: string, text: string, version: number | undefined): Part {
    const { paths, acl } = this.znodes;
    const path = paths.documentOf(name);
    const operation =
      version === undefined
        ? Operation.create(path, { acl, data: text })
        : Operation.setData(path, text, conditionOf(path, version));
    return { name: 'document', operation };
  }

  private queuePart(name: string): Part {
    const { paths, acl } = this.znodes;
    return { name: 'queue', operation: Operation.create(paths.queueOf(name), { acl }) };
  }

  private swapParts({ name, version, text, failOnUnreadNotes, notesRead, mergedNotes }: SessionSwap): Parts {
    const queue = this.znodes.paths.queueOf(name);
    const noMore: Part =
      notesRead === 0
        ? this.queuePart(name)
        : { name: 'queue', operation: Operation.check(queue, notesRead - FIRST_VERSION) };
    return [
      this.documentPart(name, text, version),
      ...(failOnUnreadNotes ? [noMore] : []),
      ...mergedNotes.map((id) => ({
        name: 'note' as const,
        operation: Operation.remove(`${queue}/${id}`, ANY_VERSION),
      })),
    ];
  }

  private mailParts({ clients, text }: Messages, version: number): Parts {
    if (clients.length === 0) return [];
    const { paths } = this.znodes;
    const message = text(version, 0);
    return clients.map((client) => ({
      name: 'mailbox',
      operation: Operation.setData(paths.mailboxOf(client), message, ANY_VERSION),
    }));
  }

  /**
   * Sends a write, and a read right behind it. If the write fails for a reason that can be repaired, repairs it and sends both
   * again: creates the top znodes if they are missing, or does what `repair` says.
   *
   * @param read returns `undefined` if nothing is to be read
   * @param repair returns true if another try can succeed, because `parts` returns other operations from now on
   */
  private writeRepaired<Reading>({ parts, read, repair }: Repaired<Reading>): Promise<Behind<Reading>> {
    return writeRepeatedly<Behind<Reading>>(
      async () => {
        const [written, reading] = await Promise.allSettled([this.write(parts()), read()] as const);
        return { ...valueOrThrow(written), reading };
      },
      async (failure) => {
        if (repair(failure)) return true;
        if (failure.code !== CODE.noNode || !failure.failed.operation.isCreation) return false;
        await this.makeParents();
        return true;
      },
      parts().length,
    );
  }

  /**
   * Returns if the write failed because another client wrote first.
   *
   * @throws ZookeeperRefusalError if it failed for any other reason
   */
  private checkLost({ code }: NotWritten): void {
    if (code !== CODE.noNode && code !== CODE.badVersion && code !== CODE.nodeExists) {
      throw new ZookeeperRefusalError(code);
    }
  }

  /**
   * Executes all operations in one transaction, or none. Executes none if the presence of the session is missing.
   *
   * @throws PresenceMissingError, and what `ZookeeperSession.send` throws
   */
  private async write(parts: Parts): Promise<WriteResult> {
    const { session, paths } = this.znodes;
    const presence = paths.presenceOf(session.id);
    const operations = [Operation.check(presence, ANY_VERSION), ...parts.map(({ operation }) => operation)];
    const { content, zxid } = await session.send(Request.multi(operations));
    if (content.isDone) return { isDone: true, zxid };
    const { code } = content;
    const index = content.index - 1;
    const failed = parts[index];
    if (failed) return { isDone: false, failed, index, code };
    throw code === CODE.noNode ? new PresenceMissingError() : new ZookeeperRefusalError(code);
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
  {
    zxid,
    ...row
  }: Pick<StoredDocument, 'version' | 'notes' | 'notesRead' | 'nextTicket'> & { readonly zxid: number },
): StoredDocument {
  return { name, text, writtenAt: zxid, revision: zxid, ...row };
}

function isFree({ version, text, notes }: StoredDocument): boolean {
  return version === undefined || (notes.length === 0 && text !== null && isFreeJson(text));
}

function notDone(row: StoredDocument): SessionWriteReply {
  return { isDone: false, row };
}

/**
 * The presence of this client's session is missing: somebody deleted it by hand. Other clients now take the session for dead and
 * take its locks over.
 */
export class PresenceMissingError extends Error {}

/** One operation of a write. Its name says what it is about, for the case that it fails. */
interface Part {
  readonly name: 'document' | 'queue' | 'note' | 'mailbox';
  readonly operation: Operation;
}

type WriteResult =
  | { readonly isDone: true; readonly zxid: number }
  /** The operation `failed` was refused, so nothing was executed. */
  | { readonly isDone: false; readonly failed: Part; readonly index: number; readonly code: number };

/** A write is repaired and repeated at most this many times, plus once for each of its operations. */
const MAX_REPAIRS = 3;

/**
 * Repeats a write as long as it fails and `repair` can remove the cause.
 *
 * @param repair returns whether another try can succeed
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

function valueOrThrow<Value>(settled: PromiseSettledResult<Value>): Value {
  if (settled.status === 'rejected') throw settled.reason;
  return settled.value;
}

/**
 * Returns what the read behind an executed write has read.
 *
 * @throws ConnectionLostError if the read failed, whatever the reason. A refusal of the read must not look like a refusal of the
 * write.
 */
function readBehindWrite<Value>(reading: PromiseSettledResult<Value>): Value {
  if (reading.status === 'rejected') throw new ConnectionLostError(reading.reason as Error);
  return reading.value;
}

/** The largest version of a znode, 2^31 - 1. The version after it is -2^31. */
const LARGEST_VERSION = 2 ** 31 - 1;

/**
 * The znode version on which a write depends.
 *
 * @throws ZookeeperError if that is the last version, -2, or -1, which in a request means "any version". After the last version
 * the znode cannot be written safely any more
 */
function conditionOf(path: string, version: number): number {
  const condition = version - FIRST_VERSION;
  if (condition !== ANY_VERSION && condition !== ANY_VERSION - 1) return condition;
  throw new ZookeeperError(
    'refused',
    `the versions of the znode ${path} are used up after ${2 ** 32 - 2} writes. Use another key, or delete the znode while nobody holds the lock or waits for it`,
  );
}

/** The version that a document has after a write, given its version before. */
function versionAfter(version: number | undefined): number {
  if (version === undefined) return FIRST_VERSION;
  return version - FIRST_VERSION === LARGEST_VERSION ? FIRST_VERSION - LARGEST_VERSION - 1 : version + 1;
}
