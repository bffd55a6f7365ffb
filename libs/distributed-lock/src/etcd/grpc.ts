import type * as GrpcJs from '@grpc/grpc-js';
import { clientPackage } from '../connection/client-package.js';

/** The messages of etcd's v3 API, limited to the fields that this store uses. Keys and values are buffers. */

interface Header {
  readonly revision: number;
  /** The number of the Raft term. It grows with each election. */
  readonly raftTerm: number;
}

export interface EtcdKeyValue {
  readonly key: Buffer;
  readonly createRevision: number;
  readonly modRevision: number;
  readonly value: Buffer;
}

interface RangeRequest {
  readonly key: Buffer;
  readonly rangeEnd?: Buffer;
  readonly limit?: number;
  readonly keysOnly?: boolean;
  readonly countOnly?: boolean;
}

interface PutRequest {
  readonly key: Buffer;
  readonly value: Buffer;
  readonly lease?: number;
  /** Writes the value and leaves the key under the lease that it has. */
  readonly ignoreLease?: boolean;
}

export interface Compare {
  readonly result: 'EQUAL' | 'GREATER' | 'LESS';
  readonly target: 'CREATE' | 'MOD' | 'VALUE';
  readonly key: Buffer;
  readonly createRevision?: number;
  readonly modRevision?: number;
  readonly value?: Buffer;
  /** If present, the comparison must hold for all keys from `key` up to this one. */
  readonly rangeEnd?: Buffer;
}

export interface RequestOp {
  readonly requestRange?: RangeRequest;
  readonly requestPut?: PutRequest;
  readonly requestDeleteRange?: { readonly key: Buffer; readonly rangeEnd?: Buffer };
  readonly requestTxn?: TxnRequest;
}

export interface TxnRequest {
  readonly compare?: readonly Compare[];
  readonly success: readonly RequestOp[];
  readonly failure?: readonly RequestOp[];
}

export interface ResponseOp {
  readonly responseRange?: { readonly kvs: readonly EtcdKeyValue[]; readonly count: number };
  readonly responseTxn?: TxnReply;
}

/** The reply to a transaction. The reply to a nested transaction has no header. */
export interface TxnReply {
  readonly header: Header | null;
  readonly succeeded: boolean;
  readonly responses: readonly ResponseOp[];
}

export interface WatchReply {
  readonly header: Header | null;
  readonly created: boolean;
  readonly canceled: boolean;
  /** More than 0 if the watch asked for a revision that etcd has compacted away: the oldest revision that etcd still has. */
  readonly compactRevision: number;
  readonly cancelReason: string;
  readonly events: readonly { readonly type: 'PUT' | 'DELETE'; readonly kv: EtcdKeyValue | null }[];
}

/** Request and reply of each call that gets one reply. A watch gets many, so it is not listed here. */
export interface Calls {
  Txn: { request: TxnRequest; reply: TxnReply };
  LeaseGrant: { request: { readonly ID: number; readonly TTL: number }; reply: { readonly TTL: number } };
  LeaseRevoke: { request: { readonly ID: number }; reply: object };
  LeaseKeepAlive: {
    request: { readonly ID: number };
    reply: { readonly header: Header | null; readonly TTL: number };
  };
  Authenticate: {
    request: { readonly name: string; readonly password: string };
    reply: { readonly token: string };
  };
  Status: {
    request: object;
    /** `leader` is the id of the leader; 0 while the member knows of none. */
    reply: { readonly version: string; readonly leader: number };
  };
}

export interface WatchRequest {
  readonly createRequest: {
    readonly key: Buffer;
    readonly startRevision: number;
    readonly progressNotify: boolean;
  };
}

/** The gRPC package, and the methods of etcd's API in the form that it needs. */
export interface EtcdGrpc {
  readonly grpc: Grpc;
  readonly methods: Readonly<Record<keyof Calls | 'Watch', Method>>;
}

type Grpc = typeof GrpcJs;
type Method = GrpcJs.MethodDefinition<object, object>;

const NOT_INSTALLED =
  'etcdStore needs the packages @grpc/grpc-js and @grpc/proto-loader, which it does not find: npm install @grpc/grpc-js @grpc/proto-loader. In a bundle leave both outside of it, and install them beside the bundle.';

let loaded: Promise<EtcdGrpc> | undefined;

/**
 * Loads the packages `@grpc/grpc-js` and `@grpc/proto-loader` if the application has installed them.
 *
 * @throws LockConfigurationError if one of them is missing
 */
export function loadGrpc(): Promise<EtcdGrpc> {
  return (loaded ??= load().catch((error: unknown) => {
    loaded = undefined;
    throw error;
  }));
}

async function load(): Promise<EtcdGrpc> {
  const [grpc, loader] = await Promise.all([
    clientPackage<Grpc>(() => import('@grpc/grpc-js'), NOT_INSTALLED),
    clientPackage<Loader>(() => import('@grpc/proto-loader'), NOT_INSTALLED),
  ]);
  const definition = loader.fromJSON(descriptor() as Parameters<Loader['fromJSON']>[0], {
    longs: Number,
    enums: String,
    defaults: true,
  });
  const methods = Object.keys(SERVICES).map(
    (service) => definition[`etcdserverpb.${service}`] as unknown as Record<string, Method>,
  );
  return { grpc, methods: Object.assign({}, ...methods) as EtcdGrpc['methods'] };
}

type Loader = typeof import('@grpc/proto-loader');

/**
 * The messages of etcd's v3 API that this store uses, with fields written as in a .proto file: type, name, number. A field with ?
 * is one of several of which a message has only one. On the wire a field is its number, so the numbers are those of etcd's .proto
 * files, and the names of fields and messages are ours.
 */
const MESSAGES = {
  KeyValue: 'bytes key 1, int64 createRevision 2, int64 modRevision 3, bytes value 5',
  Event: 'EventType type 1, KeyValue kv 2',
  ResponseHeader: 'int64 revision 3, uint64 raftTerm 4',
  RangeRequest: 'bytes key 1, bytes rangeEnd 2, int64 limit 3, bool keysOnly 8, bool countOnly 9',
  RangeResponse: 'repeated KeyValue kvs 2, int64 count 4',
  PutRequest: 'bytes key 1, bytes value 2, int64 lease 3, bool ignoreLease 6',
  DeleteRangeRequest: 'bytes key 1, bytes rangeEnd 2',
  RequestOp:
    '?RangeRequest requestRange 1, ?PutRequest requestPut 2, ?DeleteRangeRequest requestDeleteRange 3, ?TxnRequest requestTxn 4',
  ResponseOp: '?RangeResponse responseRange 1, ?TxnResponse responseTxn 4',
  Compare:
    'CompareResult result 1, CompareTarget target 2, bytes key 3, ?int64 createRevision 5, ?int64 modRevision 6, ?bytes value 7, bytes rangeEnd 64',
  TxnRequest: 'repeated Compare compare 1, repeated RequestOp success 2, repeated RequestOp failure 3',
  TxnResponse: 'ResponseHeader header 1, bool succeeded 2, repeated ResponseOp responses 3',
  WatchRequest: '?WatchCreateRequest createRequest 1',
  WatchCreateRequest: 'bytes key 1, int64 startRevision 3, bool progressNotify 4',
  WatchResponse:
    'ResponseHeader header 1, bool created 3, bool canceled 4, int64 compactRevision 5, string cancelReason 6, repeated Event events 11',
  LeaseGrantRequest: 'int64 TTL 1, int64 ID 2',
  LeaseGrantResponse: 'int64 TTL 3',
  LeaseRevokeRequest: 'int64 ID 1',
  LeaseRevokeResponse: '',
  LeaseKeepAliveRequest: 'int64 ID 1',
  LeaseKeepAliveResponse: 'ResponseHeader header 1, int64 TTL 3',
  AuthenticateRequest: 'string name 1, string password 2',
  AuthenticateResponse: 'string token 2',
  StatusRequest: '',
  StatusResponse: 'string version 2, uint64 leader 4',
};

const ENUMS = {
  EventType: { values: { PUT: 0, DELETE: 1 } },
  CompareResult: { values: { EQUAL: 0, GREATER: 1, LESS: 2 } },
  CompareTarget: { values: { CREATE: 1, MOD: 2, VALUE: 3 } },
};

/** The services and their calls. These names are sent, and so is the name of the package, so they are etcd's. */
const SERVICES: Readonly<Record<string, readonly (keyof Calls | 'Watch')[]>> = {
  KV: ['Txn'],
  Watch: ['Watch'],
  Lease: ['LeaseGrant', 'LeaseRevoke', 'LeaseKeepAlive'],
  Auth: ['Authenticate'],
  Maintenance: ['Status'],
};

/** The API as a protobufjs descriptor. */
function descriptor(): object {
  const messages = Object.entries(MESSAGES).map(([name, fields]) => [name, messageOf(fields)] as const);
  const services = Object.entries(SERVICES).map(([service, names]) => {
    const methods = Object.fromEntries(names.map((name) => [name, methodOf(name)]));
    return [service, { methods }] as const;
  });
  const nested = { ...ENUMS, ...Object.fromEntries(messages), ...Object.fromEntries(services) };
  return { nested: { etcdserverpb: { nested } } };
}

function messageOf(text: string): object {
  const fields: Record<string, object> = {};
  const alternatives: string[] = [];
  for (const field of text.split(', ').filter((each) => each !== '')) {
    const [id, name, type, rule] = field.split(' ').reverse() as [string, string, string, 'repeated'?];
    fields[name] = { type: type.replace('?', ''), id: Number(id), ...(rule && { rule }) };
    if (type.startsWith('?')) alternatives.push(name);
  }
  return { fields, ...(alternatives.length > 0 && { oneofs: { choice: { oneof: alternatives } } }) };
}

function methodOf(name: keyof Calls | 'Watch'): object {
  const isStream = name === 'Watch' || name === 'LeaseKeepAlive';
  const types = { requestType: `${name}Request`, responseType: `${name}Response` };
  return { ...types, requestStream: isStream, responseStream: isStream };
}
