import { describe, expect, it } from '@jest/globals';
import { Batch, type EtcdRequest, type MayTell } from './etcd.batch.js';
import type { RequestOp, ResponseOp } from './etcd.messages.js';

const request = (parts: Partial<EtcdRequest>): EtcdRequest => ({
  key: undefined,
  toTxn: () => ({ success: [] }),
  depth: 2,
  bytes: 100,
  toReply: () => undefined,
  since: 0,
  resolve: () => undefined,
  reject: () => undefined,
  ...parts,
});
const countIn = (batch: Batch, requests: readonly EtcdRequest[]) =>
  requests.filter((each) => batch.add(each)).length;
const many = (parts: Partial<EtcdRequest>) => Array.from({ length: 500 }, () => request(parts));
const range = (name: string): RequestOp => ({ requestRange: { key: Buffer.from(name) } });
const reading = (...names: readonly string[]) => request({ toTxn: () => ({ success: names.map(range) }) });

/** The reply of a server that answers each range with its place among all of them. */
function replyTo(operations: readonly RequestOp[], next = { count: 0 }): readonly ResponseOp[] {
  return operations.map(({ requestTxn }) =>
    requestTxn
      ? { responseTxn: { header: null, succeeded: true, responses: replyTo(requestTxn.success, next) } }
      : { responseRange: { kvs: [], count: next.count++ } },
  );
}
const countsIn = (responses: readonly ResponseOp[]) =>
  responses.map(({ responseRange }) => responseRange?.count);

describe('a batch of requests', () => {
  it('has each key once', () => {
    const batch = new Batch();
    expect(['a', 'b', 'a', undefined].map((key) => batch.add(request({ key })))).toEqual([
      true,
      true,
      false,
      true,
    ]);
  });

  it('lets no request overtake one on the same key that has to wait', () => {
    const batch = new Batch();
    batch.add(request({ depth: 100 }));
    expect(batch.add(request({ key: 'a', depth: 119 }))).toBe(false);
    expect(batch.add(request({ key: 'a' }))).toBe(false);
    expect(batch.add(request({ key: 'b' }))).toBe(true);
  });

  it('stays within the operations and the bytes that etcd takes', () => {
    expect(countIn(new Batch(), many({}))).toBe(118);
    expect(countIn(new Batch(), many({ depth: 60 }))).toBe(60);
    expect(countIn(new Batch(), many({ bytes: 100_000 }))).toBe(5);
  });

  it('takes a request alone that was in a batch too large for etcd, wherever it comes', () => {
    const [alone, other] = [request({ isAlone: true }), request({})];
    expect(countIn(new Batch(), [alone, other, alone])).toBe(1);
    expect(countIn(new Batch(), [other, alone, other])).toBe(2);
  });

  it('takes a request that is too large for others alone', () => {
    const batch = new Batch();
    expect(countIn(batch, [request({ depth: 500 }), request({})])).toBe(1);
  });
});

describe('the transaction of several requests', () => {
  const batchOf = (...requests: readonly EtcdRequest[]): Batch => {
    const batch = new Batch();
    for (const each of requests) batch.add(each);
    return batch;
  };

  it('that only read has their readings side by side, because etcd writes others to its log', () => {
    const { operations, repliesIn } = batchOf(reading('a', 'b'), reading('c')).operations(false);
    expect(operations).toEqual([range('a'), range('b'), range('c')]);
    expect(repliesIn(replyTo(operations)).map(({ responses }) => countsIn(responses))).toEqual([[0, 1], [2]]);
  });

  it('of which one writes has one transaction for each, with comparisons of its own', () => {
    const { operations, repliesIn } = batchOf(reading('a'), reading('b')).operations(true);
    expect(operations.every(({ requestTxn }) => requestTxn)).toBe(true);
    expect(repliesIn(replyTo(operations)).map(({ responses }) => countsIn(responses))).toEqual([[0], [1]]);
  });

  it('has one message to a client', () => {
    const told: boolean[] = [];
    const tell = (client: string) => (mayTell: MayTell) => {
      told.push(mayTell(client));
      return { success: [] };
    };
    batchOf(...['a', 'b', 'a'].map((client) => request({ toTxn: tell(client) }))).operations(true);
    expect(told).toEqual([true, true, false]);
  });
});
