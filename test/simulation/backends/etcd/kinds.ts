import type { RequestOp, TxnRequest } from '../../../../libs/distributed-lock/src/etcd/grpc.js';
import type { WireRequest } from './wire.js';

/** Names of requests. Each reply is called `re:` and the name of its request, and a message that a watch brings `message`. */
export const REQUEST_KINDS = [
  'status',
  'open session',
  'end session',
  'keep-alive',
  'mailbox',
  'take',
  'swap',
  'tell',
  'read',
  'ask for sessions',
  'watch',
] as const;

type Kind = (typeof REQUEST_KINDS)[number] | 'cancel';

export function kindOf(request: WireRequest): Kind {
  switch (request.name) {
    case 'Authenticate':
    case 'Status':
      return 'status';
    case 'LeaseGrant':
      return 'open session';
    case 'LeaseRevoke':
      return 'end session';
    case 'LeaseKeepAlive':
      return 'keep-alive';
    case 'Watch':
      return 'watch';
    case 'cancel':
      return 'cancel';
    case 'Txn':
      return kindOfTxn(request.request);
  }
}

/** Several writes go in one transaction. It is called by the one that changes most. */
function kindOfTxn(txn: TxnRequest): Kind {
  const operations = operationsIn(txn);
  const has = (space: string, of: (operation: RequestOp) => { readonly key: Buffer } | undefined): boolean =>
    operations.some((operation) => of(operation)?.key.includes(space));
  const isRelease = has('/l/', ({ requestDeleteRange }) => requestDeleteRange);
  if (isRelease || has('/l/', ({ requestPut }) => requestPut)) {
    return !isRelease && conditionsIn(txn).includes(0) ? 'take' : 'swap';
  }
  if (has('/s/', ({ requestPut }) => requestPut) || operations.some(({ requestPut }) => requestPut?.lease))
    return 'mailbox';
  if (has('/m/', ({ requestPut }) => requestPut)) return 'tell';
  return has('/l/', ({ requestRange }) => requestRange) ? 'read' : 'ask for sessions';
}

/** The versions that documents must have. */
function conditionsIn({ compare = [], success }: TxnRequest): readonly (number | undefined)[] {
  const own = compare
    .filter(({ key, target }) => target === 'MOD' && key.includes('/l/'))
    .map(({ modRevision }) => modRevision);
  return [...own, ...success.flatMap(({ requestTxn }) => (requestTxn ? conditionsIn(requestTxn) : []))];
}

function operationsIn({ success }: TxnRequest): readonly RequestOp[] {
  return success.flatMap((each) => (each.requestTxn ? operationsIn(each.requestTxn) : [each]));
}
