import type { RequestOp, ResponseOp, TxnReply, TxnRequest } from './etcd.messages.js';
import type { EtcdSession } from './etcd.session.js';

/** Whether a message to this client may go with the transaction, which can write each mailbox once. */
export type MayTell = (client: string) => boolean;

/** A request that waits for its transaction. */
export interface EtcdRequest<Reply = unknown> {
  /** What it reads and writes, and the key for errors. No two requests of one transaction have it in common. */
  readonly key: string | undefined;
  /** Absent for a request that writes nothing. */
  readonly session?: EtcdSession | undefined;
  /** Makes its transaction, which goes inside the one of the batch. */
  readonly toTxn: (mayTell: MayTell) => TxnRequest;
  /** How many operations the transaction has at most, with those inside of its deepest one. */
  readonly depth: number;
  /** About how many bytes it has. */
  readonly bytes: number;
  /** A batch with it was too large. */
  readonly isAlone?: boolean;
  /** @param revision that of the batch */
  readonly toReply: (reply: TxnReply, revision: number) => Reply;
  /** Our time when it came, in ms. */
  readonly since: number;
  resolve(reply: Reply): void;
  reject(error: unknown): void;
}

/** etcd's own limit is 128, for the operations of a transaction and those inside of the deepest one in it. */
const MOST_OPERATIONS = 120;
/** Far below etcd's limit of 1.5 MB for a request. */
const MOST_BYTES = 512 * 1024;

/** The requests of one transaction: each is a transaction inside it, with comparisons of its own. */
export class Batch {
  readonly requests: EtcdRequest[] = [];
  private readonly keys = new Set<string | undefined>();
  private depth = 0;
  private bytes = 0;

  /** @returns whether it has got in */
  add(request: EtcdRequest): boolean {
    if (this.requests.length > 0 && !this.hasRoomFor(request)) {
      this.block(request);
      return false;
    }
    this.requests.push(request);
    this.block(request);
    this.depth = Math.max(this.depth, request.depth);
    this.bytes += request.bytes;
    return true;
  }

  /** The operations of its transaction, and what finds the replies of its requests. */
  operations(isWrite: boolean): {
    readonly operations: readonly RequestOp[];
    readonly repliesIn: (responses: readonly ResponseOp[]) => readonly TxnReply[];
  } {
    const told = new Set<string>();
    const mayTell: MayTell = (client) => {
      const isFirst = !told.has(client);
      told.add(client);
      return isFirst;
    };
    const txns = this.requests.map(({ toTxn }) => toTxn(mayTell));
    const reads = txns.flatMap(({ success }) => success);
    // etcd appends every transaction to its Raft log, except one that only reads.
    if (!isWrite && reads.length <= MOST_OPERATIONS) {
      return { operations: reads, repliesIn: (responses) => repliesOf(txns, responses) };
    }
    return {
      operations: txns.map((requestTxn) => ({ requestTxn })),
      repliesIn: (responses) => responses.map(({ responseTxn }) => responseTxn as TxnReply),
    };
  }

  /** Also a request that has to wait: a later one on the same key must not overtake it. */
  private block({ key }: EtcdRequest): void {
    if (key !== undefined) this.keys.add(key);
  }

  private hasRoomFor({ key, depth, bytes, isAlone }: EtcdRequest): boolean {
    return (
      !isAlone &&
      !this.requests[0]?.isAlone &&
      this.requests.length + 1 + Math.max(this.depth, depth) <= MOST_OPERATIONS &&
      this.bytes + bytes <= MOST_BYTES &&
      !this.keys.has(key)
    );
  }
}

/** Of transactions whose readings went side by side. */
function repliesOf(txns: readonly TxnRequest[], responses: readonly ResponseOp[]): readonly TxnReply[] {
  let end = 0;
  return txns.map(({ success }) => {
    const start = end;
    end += success.length;
    return { header: null, succeeded: true, responses: responses.slice(start, end) };
  });
}
