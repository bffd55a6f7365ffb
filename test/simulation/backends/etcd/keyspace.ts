import type {
  Compare,
  EtcdKeyValue,
  RequestOp,
  ResponseOp,
  TxnReply,
  TxnRequest,
} from '../../../../libs/distributed-lock/src/etcd/grpc.js';
import { Refusal } from './wire.js';

export interface Stored extends EtcdKeyValue {
  /** 0: none. */
  readonly lease: number;
}

/** One key has changed. */
export interface Change {
  readonly type: 'PUT' | 'DELETE';
  readonly kv: EtcdKeyValue;
  readonly before: Stored | undefined;
  readonly at: number;
}

type PutRequest = NonNullable<RequestOp['requestPut']>;
type RangeRequest = NonNullable<RequestOp['requestRange']>;
type Range = Pick<RangeRequest, 'key' | 'rangeEnd'>;

/** A key is missing that is compared. */
const NONE = { createRevision: 0, modRevision: 0 };

/** The keys of etcd, with a revision for each transaction that writes. It keeps all changes, so that no watch comes too late. */
export class Keyspace {
  revision = 1;
  readonly changes: Change[] = [];
  private readonly keys = new Map<string, Stored>();

  /** @param clock true time @param hasLease whether a key may be put under it */
  constructor(
    private readonly clock: () => number,
    private readonly hasLease: (lease: number) => boolean,
  ) {}

  /** All comparisons, also those of transactions inside, see the keys as they are before anything is written. */
  execute(txn: TxnRequest): Omit<TxnReply, 'header'> {
    const chosen = this.choose(txn);
    this.checkPuts(chosen, new Set());
    const before = this.changes.length;
    const reply = this.apply(chosen, this.revision + 1);
    if (this.changes.length > before) this.revision += 1;
    return reply;
  }

  /** With the end of a lease its keys are deleted, in one revision. */
  deleteUnder(lease: number): void {
    const names = [...this.keys].filter(([, stored]) => stored.lease === lease).map(([name]) => name);
    for (const name of names) this.delete(name, this.revision + 1);
    if (names.length > 0) this.revision += 1;
  }

  in({ key, rangeEnd }: Range): readonly Stored[] {
    const first = nameOf(key);
    if (!rangeEnd) {
      const found = this.keys.get(first);
      return found ? [found] : [];
    }
    const end = nameOf(rangeEnd);
    const found = [...this.keys].filter(([name]) => name >= first && name < end);
    return found.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, stored]) => stored);
  }

  /** Restored from what was saved at that true time. */
  goBackTo(time: number): void {
    for (let last = this.changes.at(-1); last && last.at >= time; last = this.changes.at(-1)) {
      const { kv, before } = last;
      this.changes.pop();
      if (before) this.keys.set(nameOf(kv.key), before);
      else this.keys.delete(nameOf(kv.key));
    }
    this.revision = this.changes.at(-1)?.kv.modRevision ?? 1;
  }

  private choose({ compare = [], success, failure = [] }: TxnRequest): Chosen {
    const succeeded = compare.every((each) => this.holds(each));
    const operations = (succeeded ? success : failure).map((operation) =>
      operation.requestTxn ? this.choose(operation.requestTxn) : operation,
    );
    return { succeeded, operations };
  }

  private holds({ target, result, ...compare }: Compare): boolean {
    const found = this.in(compare);
    if (target === 'VALUE') {
      const value = compare.value as Buffer;
      return found.length > 0 && found.every((it) => isResult(it.value.compare(value), result));
    }
    const name = target === 'CREATE' ? 'createRevision' : 'modRevision';
    const wanted = compare[name] ?? 0;
    return (found.length > 0 ? found : [NONE]).every((it) => isResult(it[name] - wanted, result));
  }

  /** @param names of the keys that the transaction has put so far: each once */
  private checkPuts({ operations }: Chosen, names: Set<string>): void {
    for (const each of operations) {
      if ('succeeded' in each) this.checkPuts(each, names);
      else if (each.requestPut) {
        const name = nameOf(each.requestPut.key);
        if (names.has(name)) throw new Refusal(3, 'etcdserver: duplicate key given in txn request');
        names.add(name);
        this.checkPut(each.requestPut);
      }
    }
  }

  private checkPut({ key, lease, ignoreLease }: PutRequest): void {
    if (lease && !this.hasLease(lease)) throw new Refusal(5, 'etcdserver: requested lease not found');
    if (ignoreLease && this.in({ key }).length === 0) throw new Refusal(3, 'etcdserver: key not found');
  }

  private apply({ succeeded, operations }: Chosen, revision: number): Omit<TxnReply, 'header'> {
    const responses = operations.map((each): ResponseOp => {
      if ('succeeded' in each) return { responseTxn: { header: null, ...this.apply(each, revision) } };
      const { requestRange, requestPut, requestDeleteRange } = each;
      if (requestPut) this.put(requestPut, revision);
      if (requestDeleteRange)
        for (const { key } of this.in(requestDeleteRange)) this.delete(nameOf(key), revision);
      return requestRange ? { responseRange: this.range(requestRange) } : {};
    });
    return { succeeded, responses };
  }

  private range({ limit = Infinity, countOnly, ...range }: RangeRequest): {
    readonly kvs: readonly EtcdKeyValue[];
    readonly count: number;
  } {
    const found = this.in(range);
    return { kvs: countOnly ? [] : found.slice(0, limit), count: found.length };
  }

  private put({ key, value, lease = 0, ignoreLease }: PutRequest, revision: number): void {
    const name = nameOf(key);
    const before = this.keys.get(name);
    const kv: Stored = {
      key,
      value,
      createRevision: before?.createRevision ?? revision,
      modRevision: revision,
      lease: ignoreLease ? (before?.lease ?? 0) : lease,
    };
    this.keys.set(name, kv);
    this.changes.push({ type: 'PUT', kv, before, at: this.clock() });
  }

  private delete(name: string, revision: number): void {
    const before = this.keys.get(name);
    if (!before) return;
    this.keys.delete(name);
    const kv = { key: before.key, value: Buffer.alloc(0), createRevision: 0, modRevision: revision };
    this.changes.push({ type: 'DELETE', kv, before, at: this.clock() });
  }
}

/** A transaction of which it is decided what is executed. */
interface Chosen {
  readonly succeeded: boolean;
  readonly operations: readonly (Chosen | RequestOp)[];
}

/** Compares as the bytes do. */
export function nameOf(key: Buffer): string {
  return key.toString('latin1');
}

function isResult(difference: number, result: Compare['result']): boolean {
  if (result === 'EQUAL') return difference === 0;
  return result === 'LESS' ? difference < 0 : difference > 0;
}
