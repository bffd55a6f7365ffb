import { describe, expect, it } from '@jest/globals';
import { Batch, type EtcdRequest } from './batch.js';
import { EtcdKeys } from './backend.js';
import type { RequestOp, ResponseOp, TxnRequest } from './grpc.js';

const keys = new EtcdKeys('/');
const range = (name: string): RequestOp => ({ requestRange: { key: Buffer.from(name) } });
const ranges = (count: number) => Array.from({ length: count }, (_, i) => range(String(i)));

const request = (parts: Partial<EtcdRequest>): EtcdRequest => ({
  key: undefined,
  txn: { success: ranges(2) },
  bytes: 100,
  toReply: () => undefined,
  since: 0,
  resolve: () => undefined,
  reject: () => undefined,
  ...parts,
});
const deep = (depth: number, parts: Partial<EtcdRequest> = {}) =>
  request({ ...parts, txn: { success: ranges(depth) } });
const reading = (...names: readonly string[]) => request({ txn: { success: names.map(range) } });
const batchOf = (...requests: readonly EtcdRequest[]): Batch => {
  const batch = new Batch();
  for (const each of requests) batch.add(each);
  return batch;
};
const countIn = (batch: Batch, requests: readonly EtcdRequest[]) =>
  requests.filter((each) => batch.add(each)).length;
const many = (parts: Partial<EtcdRequest>) => Array.from({ length: 500 }, () => request(parts));

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
    const batch = batchOf(deep(100));
    expect(batch.add(deep(119, { key: 'a' }))).toBe(false);
    expect(batch.add(request({ key: 'a' }))).toBe(false);
    expect(batch.add(request({ key: 'b' }))).toBe(true);
  });

  it('stays within the operations and the bytes that etcd takes', () => {
    expect(countIn(new Batch(), many({}))).toBe(118);
    expect(countIn(new Batch(), many(deep(60)))).toBe(60);
    expect(countIn(new Batch(), many({ bytes: 100_000 }))).toBe(5);
  });

  it('takes a request alone that was in a batch too large for etcd, wherever it comes', () => {
    const [alone, other] = [request({ isAlone: true }), request({})];
    expect(countIn(new Batch(), [alone, other, alone])).toBe(1);
    expect(countIn(new Batch(), [other, alone, other])).toBe(2);
  });

  it('takes a request that is too large for others alone', () => {
    expect(countIn(new Batch(), [deep(500), request({})])).toBe(1);
  });
});

describe('the transaction of several requests', () => {
  it('that only read has their readings side by side, because etcd writes others to its log', () => {
    const { operations, answersIn } = batchOf(reading('a', 'b'), reading('c')).toTxn(keys, false);
    expect(operations).toEqual([range('a'), range('b'), range('c')]);
    expect(answersIn(replyTo(operations)).map(({ reply }) => countsIn(reply.responses))).toEqual([
      [0, 1],
      [2],
    ]);
  });

  it('of which one writes has one transaction for each, with comparisons of its own', () => {
    const { operations, answersIn } = batchOf(reading('a'), reading('b')).toTxn(keys, true);
    expect(operations.every(({ requestTxn }) => requestTxn)).toBe(true);
    expect(answersIn(replyTo(operations)).map(({ reply }) => countsIn(reply.responses))).toEqual([[0], [1]]);
  });
});

describe('the messages of several requests', () => {
  const swap = (name: string, ...clients: readonly string[]) =>
    request({
      key: name,
      txn: { compare: [{ key: Buffer.from(name), target: 'MOD', result: 'EQUAL' }], success: [] },
      messages: { name, clients, text: () => `${name} has changed` },
    });
  const mailsIn = (operations: readonly RequestOp[], requests: number) =>
    operations.slice(requests).map(({ requestTxn }) => requestTxn as TxnRequest);

  it('go together to each client, if all of these requests are executed and its mailbox exists', () => {
    const { operations } = batchOf(swap('a', 'c', 'd'), swap('b', 'c')).toTxn(keys, true);
    const mails = mailsIn(operations, 2);
    expect(mails.map(({ compare }) => compare?.map(({ key }) => String(key)))).toEqual([
      ['/m/c', 'a', 'b'],
      ['/m/d', 'a'],
    ]);
    const texts = mails.map(({ success: [put] }) => put?.requestPut?.value.toString());
    expect(texts).toEqual(['a has changed\nb has changed', 'a has changed']);
  });

  it('name the clients that were told', () => {
    const { answersIn } = batchOf(swap('a', 'c', 'd'), swap('b', 'c')).toTxn(keys, true);
    const reply = (succeeded: boolean) => ({ responseTxn: { header: null, succeeded, responses: [] } });
    const answers = answersIn([true, true, false, true].map(reply));
    expect(answers.map(({ told }) => told)).toEqual([['d'], []]);
  });

  it('have room beside the requests, or are left for later', () => {
    const swaps = Array.from({ length: 100 }, (_, i) => swap(String(i), 'c', `only ${i}`));
    const { operations } = batchOf(...swaps).toTxn(keys, true);
    const mails = mailsIn(operations, 100);
    const deepest = Math.max(...mails.map(({ compare = [] }) => compare.length));
    expect(mails.length).toBeGreaterThan(1);
    expect(operations.length + 1 + deepest).toBeLessThanOrEqual(120);
  });
});
