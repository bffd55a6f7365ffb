import type { RequestOp, ResponseOp, TxnReply, TxnRequest } from './etcd.messages.js';

/** etcd's own limit is 128, for the operations of a transaction and those inside of the deepest one in it. */
export const MOST_OPERATIONS = 120;
/** More operations than these side by side are cut up. */
const OPERATIONS_IN_ONE = 12;
/** Tags, lengths and numbers of one operation or comparison. */
const FRAMING = 40;

type SlotOf = (client: string) => number;

/** The operations of one request that makes the transaction of each request, and what finds their replies. */
export function inOne(
  toTxns: readonly ((slotOf: SlotOf) => TxnRequest)[],
  isWrite: boolean,
): {
  readonly operations: readonly RequestOp[];
  readonly repliesIn: (responses: readonly ResponseOp[]) => readonly TxnReply[];
} {
  const slots = new Map<string, number>();
  const slotOf: SlotOf = (client) => {
    const slot = slots.get(client) ?? 0;
    slots.set(client, slot + 1);
    return slot;
  };
  const txns = toTxns.map((toTxn) => toTxn(slotOf));
  const reads = txns.flatMap(({ success }) => success);
  // etcd writes each transaction to its log, but one of nothing but ranges.
  if (!isWrite && reads.length <= MOST_OPERATIONS && reads.every(({ requestRange }) => requestRange)) {
    return { operations: reads, repliesIn: (responses) => cutUp(responses, txns) };
  }
  return {
    operations: txns.map((requestTxn) => ({ requestTxn })),
    repliesIn: (responses) => responses.map(({ responseTxn }) => responseTxn as TxnReply),
  };
}

function cutUp(responses: readonly ResponseOp[], txns: readonly TxnRequest[]): readonly TxnReply[] {
  let end = 0;
  return txns.map(({ success }) => {
    const start = end;
    end += success.length;
    return { header: null, succeeded: true, responses: responses.slice(start, end) };
  });
}

/** The same operations, side by side if they are few, otherwise in as many transactions as each has operations. */
export function inParts(operations: readonly RequestOp[]): readonly RequestOp[] {
  const { length } = operations;
  if (length <= OPERATIONS_IN_ONE) return operations;
  const size = Math.ceil(Math.sqrt(length));
  return Array.from({ length: Math.ceil(length / size) }, (_, i) => ({
    requestTxn: { success: operations.slice(i * size, (i + 1) * size) },
  }));
}

/** The replies to `inParts`. */
export function flatOf(responses: readonly ResponseOp[]): readonly ResponseOp[] {
  return responses.flatMap((response) => response.responseTxn?.responses ?? response);
}

/** How many operations it has on its longest way down. */
export function depthOf({ compare = [], success, failure = [] }: TxnRequest): number {
  const below = [...success, ...failure].map(({ requestTxn }) => (requestTxn ? depthOf(requestTxn) : 0));
  return Math.max(compare.length, success.length, failure.length) + Math.max(0, ...below);
}

/** How many bytes it is when it is sent, or a few more. */
export function bytesOf({ compare = [], success, failure = [] }: TxnRequest): number {
  let bytes = FRAMING;
  for (const { key, value, rangeEnd } of compare) bytes += lengthOf(key, value, rangeEnd);
  for (const operations of [success, failure]) {
    for (const { requestRange, requestPut, requestDeleteRange, requestTxn } of operations) {
      if (requestTxn) bytes += FRAMING + bytesOf(requestTxn);
      else if (requestRange) bytes += lengthOf(requestRange.key, requestRange.rangeEnd);
      else if (requestPut) bytes += lengthOf(requestPut.key, requestPut.value);
      else if (requestDeleteRange) bytes += lengthOf(requestDeleteRange.key);
    }
  }
  return bytes;
}

function lengthOf(...parts: readonly (Buffer | undefined)[]): number {
  return parts.reduce((sum, part) => sum + (part?.length ?? 0), FRAMING);
}
