import { ignoreFailure } from '../common/promises.js';
import type { PipedRequest } from '../connection/request-pipe.js';
import type { Messages } from '../session/backend.js';
import type { EtcdKeys } from './backend.js';
import type { EtcdClient } from './client.js';
import type { Compare, RequestOp, ResponseOp, TxnReply, TxnRequest } from './grpc.js';
import type { EtcdSession } from './sessions.js';

/**
 * etcd refuses a transaction of more than `--max-txn-ops` operations, 128 by default. It counts the operations of the transaction
 * plus those of the largest transaction nested in it.
 */
const MAX_OPERATIONS = 120;
/** A batch takes no more requests beyond this size. It is far below etcd's limit of 1.5 MB for a request. */
const MAX_BYTES = 512 * 1024;

/**
 * Several requests that go to etcd in one transaction. Each stays a transaction nested in it with comparisons of its own, so one
 * that fails its comparisons does not stop the others.
 */
export class Batch {
  readonly requests: EtcdRequest[] = [];
  private readonly keys = new Set<string | undefined>();
  private depth = 0;
  private bytes = 0;

  /**
   * Adds the request if the batch has room for it.
   *
   * @returns whether it had room
   */
  add(request: EtcdRequest): boolean {
    const depth = depthOf(request.txn);
    if (this.requests.length > 0 && !this.hasRoomFor(request, depth)) {
      this.block(request);
      return false;
    }
    this.requests.push(request);
    this.block(request);
    this.depth = Math.max(this.depth, depth);
    this.bytes += request.bytes;
    return true;
  }

  toTxn(keys: EtcdKeys, isWrite: boolean): BatchTxn {
    const txns = this.requests.map(({ txn }) => txn);
    const reads = txns.flatMap(({ success }) => success);
    // A transaction that only reads sends its reads without nesting: etcd does not append it to the Raft log then.
    if (!isWrite && reads.length <= MAX_OPERATIONS) {
      return { operations: reads, answersIn: (responses) => answersOf(txns, responses) };
    }
    const mails = this.mails(keys);
    const mailOps = mails.map(({ client, compare, texts }) => ({
      requestTxn: { compare, success: [putMessages(keys, client, texts)] },
    }));
    return {
      operations: [...txns.map((requestTxn) => ({ requestTxn })), ...mailOps],
      answersIn: (responses) => {
        const replies = responses.map(({ responseTxn }) => responseTxn as TxnReply);
        const sent = mails.filter((_, i) => replies[txns.length + i]?.succeeded);
        return this.requests.map((request, i) => {
          const told = sent.filter(({ requests }) => requests.includes(request)).map(({ client }) => client);
          return { reply: replies[i] as TxnReply, told };
        });
      },
    };
  }

  /**
   * Collects the messages that this transaction writes into mailboxes. A transaction of etcd may put a key only once, so all
   * messages to one client become one value. Messages that find no room here are sent by `EtcdOutbox` later.
   */
  private mails(keys: EtcdKeys): readonly Mail[] {
    const mails = new Map<string, Mail>();
    let { depth } = this;
    for (const request of this.requests) {
      const { messages, txn } = request;
      if (!messages || messages.clients.length === 0) continue;
      const text = messages.text(0, 0);
      for (const client of messages.clients) {
        const mail = mails.get(client) ?? { requests: [], compare: [mailboxExists(keys, client)], texts: [] };
        const compare = [...mail.compare, ...(txn.compare ?? [])];
        const operations = this.requests.length + new Set([...mails.keys(), client]).size + 1;
        if (operations + Math.max(depth, compare.length) > MAX_OPERATIONS) continue;
        depth = Math.max(depth, compare.length);
        const requests = [...mail.requests, request];
        mails.set(client, { client, requests, compare, texts: [...mail.texts, text] });
      }
    }
    return [...mails.values()];
  }

  /**
   * Keeps later requests on this key out of the batch. One batch has at most one request of a key, and if a request had no room,
   * a later one on the same key must not overtake it.
   */
  private block({ key }: EtcdRequest): void {
    if (key !== undefined) this.keys.add(key);
  }

  private hasRoomFor({ key, bytes, isAlone }: EtcdRequest, depth: number): boolean {
    return (
      !isAlone &&
      !this.requests[0]?.isAlone &&
      this.requests.length + 1 + Math.max(this.depth, depth) <= MAX_OPERATIONS &&
      this.bytes + bytes <= MAX_BYTES &&
      !this.keys.has(key)
    );
  }
}

/** A request that waits for its transaction. */
export interface EtcdRequest<Reply = unknown> extends PipedRequest {
  /**
   * The key of the lock whose document the request reads or writes. Errors name it, and a batch has at most one request of a key.
   */
  readonly key: string | undefined;
  /** Absent for a request that writes nothing. */
  readonly session?: EtcdSession | undefined;
  /** The transaction of this one request, which `Batch.toTxn` nests in the transaction of the batch. */
  readonly txn: TxnRequest;
  /**
   * Messages to other clients. The transaction puts them into mailboxes if it has room, and the outbox sends the others after
   * it.
   */
  readonly messages?: Messages;
  /** An upper estimate of the size of the request, in bytes. */
  readonly bytes: number;
  /** The request gets a batch to itself, because etcd refused a batch with it as too large. */
  readonly isAlone?: boolean;
  /** Turns etcd's reply into the result of the request. `revision` is the revision of the whole batch. */
  readonly toReply: (reply: TxnReply, revision: number) => Reply;
  resolve(reply: Reply): void;
}

interface Answer {
  readonly reply: TxnReply;
  readonly told: readonly string[];
}

interface BatchTxn {
  readonly operations: readonly RequestOp[];
  readonly answersIn: (responses: readonly ResponseOp[]) => readonly Answer[];
}

/** The messages of several requests to one client. etcd writes them only if all of these requests are executed. */
interface Mail {
  readonly client: string;
  readonly requests: readonly EtcdRequest[];
  readonly compare: readonly Compare[];
  readonly texts: readonly string[];
}

/** How many operations etcd counts for a nested transaction: the length of its longest list (comparisons, success or failure). */
function depthOf({ compare = [], success, failure = [] }: TxnRequest): number {
  return Math.max(compare.length, success.length, failure.length);
}

/** Splits the responses of a transaction that only reads among its requests, in order. */
function answersOf(txns: readonly TxnRequest[], responses: readonly ResponseOp[]): readonly Answer[] {
  let end = 0;
  return txns.map(({ success }) => {
    const start = end;
    end += success.length;
    const reply = { header: null, succeeded: true, responses: responses.slice(start, end) };
    return { reply, told: [] };
  });
}

/** One transaction of the outbox has messages for at most this many clients, and texts of about `MAX_LENGTH` characters in all. */
const MAX_CLIENTS = 100;
const MAX_LENGTH = 256 * 1024;

/**
 * Sends messages to other clients in transactions of their own: messages that belong to no write, and those for which the
 * transaction of their write had no room. One transaction is in flight at a time. Messages that come meanwhile go together in the
 * next one.
 *
 * These transactions do not compare the epoch of the session as writes do (`EtcdPipe`). If etcd executes one late, no harm is
 * done: a receiver ignores a document that is older than the one it knows.
 */
export class EtcdOutbox {
  /** The messages to send: client id → name of the lock → text. A later message about the same lock replaces an earlier one. */
  private readonly waiting = new Map<string, Map<string, string>>();
  private isSending = false;

  constructor(
    private readonly client: Pick<EtcdClient, 'call'>,
    private readonly keys: EtcdKeys,
  ) {}

  /**
   * Sends the message to those of its `clients` that are not in `told`.
   *
   * @param told the clients into whose mailboxes the write itself has put the message
   * @param revision the revision of that write; 0 if the message belongs to no write
   */
  tell({ name, clients, text }: Messages, told: readonly string[] = [], revision = 0): void {
    const others = clients.filter((client) => !told.includes(client));
    if (others.length === 0) return;
    const message = text(revision, revision);
    for (const client of others) {
      const texts = this.waiting.get(client) ?? new Map<string, string>();
      this.waiting.set(client, texts.set(name, message));
    }
    if (!this.isSending) ignoreFailure(this.sendAll());
  }

  close(): void {
    this.waiting.clear();
  }

  private async sendAll(): Promise<void> {
    this.isSending = true;
    // Wait for the end of this turn of the event loop, so that all its messages go in one transaction.
    await Promise.resolve();
    while (this.waiting.size > 0) {
      // A message may get lost here: the waiter that it was for rechecks.
      await this.client.call('Txn', { success: this.takeSome() }, { mayRepeat: true }).catch(() => undefined);
    }
    this.isSending = false;
  }

  private takeSome(): readonly RequestOp[] {
    const operations: RequestOp[] = [];
    let length = 0;
    for (const [client, texts] of this.waiting) {
      if (operations.length === MAX_CLIENTS || length > MAX_LENGTH) break;
      const taken: string[] = [];
      for (const [name, text] of texts) {
        if (length > MAX_LENGTH) break;
        length += text.length;
        texts.delete(name);
        taken.push(text);
      }
      if (texts.size === 0) this.waiting.delete(client);
      const compare = [mailboxExists(this.keys, client)];
      operations.push({ requestTxn: { compare, success: [putMessages(this.keys, client, taken)] } });
    }
    return operations;
  }
}

/** The operation that writes messages into the mailbox of a client. Texts have no line breaks, so line breaks separate them. */
function putMessages(keys: EtcdKeys, client: string, texts: readonly string[]): RequestOp {
  const value = Buffer.from(texts.join('\n'));
  return { requestPut: { key: keys.mailbox(client), value, ignoreLease: true } };
}

/**
 * The comparison that is true if the client has a mailbox. The mailbox ends with the session, so a client that is gone has none.
 */
function mailboxExists(keys: EtcdKeys, client: string): Compare {
  return { key: keys.mailbox(client), target: 'CREATE', result: 'GREATER', createRevision: 0 };
}
