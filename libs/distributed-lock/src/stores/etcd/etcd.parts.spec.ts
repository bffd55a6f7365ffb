import { describe, expect, it } from '@jest/globals';
import type { RequestOp, ResponseOp, TxnRequest } from './etcd.messages.js';
import { loadGrpc } from './etcd.grpc.js';
import { bytesOf, depthOf, flatOf, inOne, inParts } from './etcd.parts.js';

const range = (name: string): RequestOp => ({ requestRange: { key: Buffer.from(name) } });
const ranges = (count: number) => Array.from({ length: count }, (_, i) => range(String(i)));

/** The reply of a server that answers each range with its place among all of them. */
function replyTo(operations: readonly RequestOp[], next = { count: 0 }): readonly ResponseOp[] {
  return operations.map(({ requestTxn }) =>
    requestTxn
      ? {
          responseTxn: {
            header: null,
            succeeded: true,
            responses: replyTo(requestTxn.success, next),
          },
        }
      : { responseRange: { kvs: [], count: next.count++ } },
  );
}
const countsIn = (responses: readonly ResponseOp[]) =>
  responses.map(({ responseRange }) => responseRange?.count);

describe('operations of a transaction', () => {
  it.each([1, 12, 13, 100, 3000])(
    'that are %d stay below the limit of etcd, and keep their order',
    (count) => {
      const operations = inParts(ranges(count));
      expect(depthOf({ success: operations })).toBeLessThanOrEqual(112);
      expect(countsIn(flatOf(replyTo(operations)))).toEqual(ranges(count).map((_, i) => i));
    },
  );
});

describe('the size of a transaction', () => {
  const key = Buffer.alloc(4096, 'ü');
  const large = 2 ** 52;
  const put: RequestOp = {
    requestPut: { key, value: Buffer.alloc(20_000), lease: large, ignoreLease: true },
  };
  it.each<[string, TxnRequest]>([
    ['small', { success: [range('a')] }],
    [
      'many',
      {
        compare: [
          { key, target: 'MOD', result: 'EQUAL', modRevision: large, rangeEnd: key },
          { key, target: 'VALUE', result: 'LESS', value: key },
        ],
        success: inParts(
          Array.from({ length: 50 }, () => ({
            requestTxn: { success: [put, { requestDeleteRange: { key } }] },
          })),
        ),
        failure: [
          put,
          { requestTxn: { success: [{ requestRange: { key, rangeEnd: key, countOnly: true } }] } },
        ],
      },
    ],
  ])('of %s operations is at least what is sent, and not much more', async (_, txn) => {
    const { methods } = await loadGrpc();
    const sent = methods.Txn.requestSerialize(txn).length;
    expect(bytesOf(txn)).toBeGreaterThanOrEqual(sent);
    expect(bytesOf(txn)).toBeLessThan(1.02 * sent + 100);
  });
});

describe('the transactions of several requests', () => {
  const txn =
    (...success: readonly RequestOp[]) =>
    () =>
      ({ success }) satisfies TxnRequest;

  it('that only read go side by side, because etcd writes others to its log', () => {
    const { operations, repliesIn } = inOne([txn(range('a'), range('b')), txn(range('c'))], false);
    expect(operations).toEqual([range('a'), range('b'), range('c')]);
    expect(repliesIn(replyTo(operations)).map(({ responses }) => countsIn(responses))).toEqual([[0, 1], [2]]);
  });

  it('of which one writes go inside, each with its own comparisons', () => {
    const requests = [txn(range('a')), txn(range('b'))];
    const { operations, repliesIn } = inOne(requests, true);
    expect(operations.every(({ requestTxn }) => requestTxn)).toBe(true);
    expect(repliesIn(replyTo(operations)).map(({ responses }) => countsIn(responses))).toEqual([[0], [1]]);
  });

  it('put no two messages to a client into one slot', () => {
    const slots: string[] = [];
    const tell = (client: string) => (slotOf: (name: string) => number) => {
      slots.push(`${client}/${slotOf(client)}`);
      return { success: [] };
    };
    inOne([tell('a'), tell('b'), tell('a'), tell('a')], true);
    expect(slots).toEqual(['a/0', 'b/0', 'a/1', 'a/2']);
  });
});
