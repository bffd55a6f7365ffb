import { inBackground } from '../common/promises.js';
import type { PipedRequest } from '../connection/request-pipe.js';
import type { Messages } from '../session/backend.js';
import type { EtcdKeys } from './backend.js';
import type { EtcdClient } from './client.js';
import type { Compare, RequestOp, ResponseOp, TxnReply, TxnRequest } from './grpc.js';
import type { EtcdSession } from './sessions.js';

/** etcd's own limit is 128 by default, for the operations of a transaction plus those of the largest transaction in it. */
const MAX_OPERATIONS = 120;
/** Far below etcd's limit of 1.5 MB for a request. */
const MAX_BYTES = 512 * 1024;

/** The requests of one transaction: each is a transaction inside it, with comparisons of its own. */
export class Batch {
  readonly requests: EtcdRequest[] = [];
  private readonly keys = new Set<string | undefined>();
  private depth = 0;
  private bytes = 0;

  /** @returns whether the batch had room for the request */
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
    // etcd appends every transaction to its Raft log, except one that only reads.
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
   * The messages that this transaction writes: one value a client, because a transaction of etcd may put a key only once.
   * `EtcdOutbox` sends the others later.
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

  /** Keeps later requests on this key out of the batch, because they must not overtake the one that waits. */
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
  /** The lock whose document the request reads or writes, also for errors. A transaction has one request for each lock. */
  readonly key: string | undefined;
  /** Absent for a request that writes nothing. */
  readonly session?: EtcdSession | undefined;
  /** The transaction of the request, which the transaction of the batch contains. */
  readonly txn: TxnRequest;
  /**
   * Messages to other clients. The transaction puts them into mailboxes if it has room, and the outbox sends the others after
   * it.
   */
  readonly messages?: Messages;
  /** About how many bytes the request has. */
  readonly bytes: number;
  /** etcd found a batch with this request too large, so the request goes alone. */
  readonly isAlone?: boolean;
  /** @param revision the revision of the batch */
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

/** The messages of several requests to one client. They are sent if all of these requests are executed. */
interface Mail {
  readonly client: string;
  readonly requests: readonly EtcdRequest[];
  readonly compare: readonly Compare[];
  readonly texts: readonly string[];
}

/** The length of its longest list: comparisons, or operations of one outcome. */
function depthOf({ compare = [], success, failure = [] }: TxnRequest): number {
  return Math.max(compare.length, success.length, failure.length);
}

/** The answers to requests that only read. Their readings went side by side in one transaction. */
function answersOf(txns: readonly TxnRequest[], responses: readonly ResponseOp[]): readonly Answer[] {
  let end = 0;
  return txns.map(({ success }) => {
    const start = end;
    end += success.length;
    const reply = { header: null, succeeded: true, responses: responses.slice(start, end) };
    return { reply, told: [] };
  });
}

/** Limits of one transaction of messages: clients, and characters of all texts together. */
const MAX_CLIENTS = 100;
const MAX_LENGTH = 256 * 1024;

/**
 * The messages of this client that have a transaction of their own, because no write waits for them, or because the
 * transaction of their write had no room. One transaction is in flight at a time, and the messages that come meanwhile go
 * together in the next one.
 *
 * They need no fence, because the receiver ignores a document that is older than the one it knows.
 */
export class EtcdOutbox {
  /** The messages to send, by client and name. A later document of a name replaces an earlier one. */
  private readonly waiting = new Map<string, Map<string, string>>();
  private isSending = false;

  constructor(
    private readonly client: Pick<EtcdClient, 'call'>,
    private readonly keys: EtcdKeys,
  ) {}

  /**
   * Sends a message to those clients that do not have it yet. @param told the clients that have it @param revision the revision of
   * the write, if there was one
   */
  tell({ name, clients, text }: Messages, told: readonly string[] = [], revision = 0): void {
    const others = clients.filter((client) => !told.includes(client));
    if (others.length === 0) return;
    const message = text(revision, revision);
    for (const client of others) {
      const texts = this.waiting.get(client) ?? new Map<string, string>();
      this.waiting.set(client, texts.set(name, message));
    }
    if (!this.isSending) inBackground(this.sendAll(), () => undefined);
  }

  close(): void {
    this.waiting.clear();
  }

  private async sendAll(): Promise<void> {
    this.isSending = true;
    // The messages of one turn of the event loop go together.
    await Promise.resolve();
    while (this.waiting.size > 0) {
      // A waiter whose message is lost rechecks.
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

/** Puts texts without line breaks into the mailbox of a client, which must exist. */
function putMessages(keys: EtcdKeys, client: string, texts: readonly string[]): RequestOp {
  const value = Buffer.from(texts.join('\n'));
  return { requestPut: { key: keys.mailbox(client), value, ignoreLease: true } };
}

/** The condition that the client has a mailbox. A client that is gone has none. */
function mailboxExists(keys: EtcdKeys, client: string): Compare {
  return { key: keys.mailbox(client), target: 'CREATE', result: 'GREATER', createRevision: 0 };
}
