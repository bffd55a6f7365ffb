import type * as GrpcJs from '@grpc/grpc-js';
import { clientPackage } from '../connection/client-package.js';

/** The messages of etcd's v3 API, limited to the fields that this store uses. Keys and values are buffers. */

export interface Header {
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

export interface RangeRequest {
  readonly key: Buffer;
  readonly rangeEnd?: Buffer;
  readonly limit?: number;
  readonly keysOnly?: boolean;
  readonly countOnly?: boolean;
}

export interface PutRequest {
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

export type CallName = keyof Calls;

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
  readonly methods: Readonly<Record<CallName | 'Watch', Method>>;
}

export type Grpc = typeof GrpcJs;
export type Method = GrpcJs.MethodDefinition<object, object>;

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
  const definition = loader.fromJSON(ETCD_DESCRIPTOR as Descriptor, {
    longs: Number,
    enums: String,
    defaults: true,
  });
  const methods = ['KV', 'Watch', 'Lease', 'Auth', 'Maintenance'].map(
    (service) => definition[`etcdserverpb.${service}`] as unknown as Record<string, Method>,
  );
  return { grpc, methods: Object.assign({}, ...methods) as EtcdGrpc['methods'] };
}

type Descriptor = Parameters<Loader['fromJSON']>[0];
type Loader = typeof import('@grpc/proto-loader');

/**
 * The part of etcd's v3 API that this store uses, as a protobufjs descriptor. On the wire, a field is its number, so the numbers
 * are those of etcd's .proto files, and the names of fields are ours. The names of packages, services and calls are sent, so they
 * are etcd's.
 */
const ETCD_DESCRIPTOR = {
  nested: {
    mvccpb: {
      nested: {
        KeyValue: {
          fields: fields('bytes key 1, int64 createRevision 2, int64 modRevision 3, bytes value 5'),
        },
        Event: {
          fields: fields('EventType type 1, KeyValue kv 2'),
          nested: { EventType: { values: { PUT: 0, DELETE: 1 } } },
        },
      },
    },
    etcdserverpb: {
      nested: {
        ResponseHeader: { fields: fields('int64 revision 3, uint64 raftTerm 4') },

        RangeRequest: {
          fields: fields('bytes key 1, bytes rangeEnd 2, int64 limit 3, bool keysOnly 8, bool countOnly 9'),
        },
        RangeResponse: { fields: fields('repeated mvccpb.KeyValue kvs 2, int64 count 4') },
        PutRequest: {
          fields: fields('bytes key 1, bytes value 2, int64 lease 3, bool ignoreLease 6'),
        },
        DeleteRangeRequest: { fields: fields('bytes key 1, bytes rangeEnd 2') },
        RequestOp: {
          fields: fields(
            'RangeRequest requestRange 1, PutRequest requestPut 2, DeleteRangeRequest requestDeleteRange 3, TxnRequest requestTxn 4',
          ),
          oneofs: {
            request: { oneof: ['requestRange', 'requestPut', 'requestDeleteRange', 'requestTxn'] },
          },
        },
        ResponseOp: {
          fields: fields('RangeResponse responseRange 1, TxnResponse responseTxn 4'),
          oneofs: { response: { oneof: ['responseRange', 'responseTxn'] } },
        },
        Compare: {
          fields: fields(
            'CompareResult result 1, CompareTarget target 2, bytes key 3, int64 createRevision 5, int64 modRevision 6, bytes value 7, bytes rangeEnd 64',
          ),
          oneofs: { target_union: { oneof: ['createRevision', 'modRevision', 'value'] } },
          nested: {
            CompareResult: { values: { EQUAL: 0, GREATER: 1, LESS: 2 } },
            CompareTarget: { values: { CREATE: 1, MOD: 2, VALUE: 3 } },
          },
        },
        TxnRequest: {
          fields: fields(
            'repeated Compare compare 1, repeated RequestOp success 2, repeated RequestOp failure 3',
          ),
        },
        TxnResponse: {
          fields: fields('ResponseHeader header 1, bool succeeded 2, repeated ResponseOp responses 3'),
        },

        WatchRequest: {
          fields: fields('WatchCreateRequest createRequest 1'),
          oneofs: { request_union: { oneof: ['createRequest'] } },
        },
        WatchCreateRequest: {
          fields: fields('bytes key 1, int64 startRevision 3, bool progressNotify 4'),
        },
        WatchResponse: {
          fields: fields(
            'ResponseHeader header 1, bool created 3, bool canceled 4, int64 compactRevision 5, string cancelReason 6, repeated mvccpb.Event events 11',
          ),
        },

        LeaseGrantRequest: { fields: fields('int64 TTL 1, int64 ID 2') },
        LeaseGrantResponse: { fields: fields('int64 TTL 3') },
        LeaseRevokeRequest: { fields: fields('int64 ID 1') },
        LeaseRevokeResponse: { fields: {} },
        LeaseKeepAliveRequest: { fields: fields('int64 ID 1') },
        LeaseKeepAliveResponse: { fields: fields('ResponseHeader header 1, int64 TTL 3') },

        AuthenticateRequest: { fields: fields('string name 1, string password 2') },
        AuthenticateResponse: { fields: fields('string token 2') },

        StatusRequest: { fields: {} },
        StatusResponse: { fields: fields('string version 2, uint64 leader 4') },

        KV: { methods: { Txn: method('Txn') } },
        Watch: { methods: { Watch: { ...method('Watch'), requestStream: true, responseStream: true } } },
        Lease: {
          methods: {
            LeaseGrant: method('LeaseGrant'),
            LeaseRevoke: method('LeaseRevoke'),
            LeaseKeepAlive: { ...method('LeaseKeepAlive'), requestStream: true, responseStream: true },
          },
        },
        Auth: { methods: { Authenticate: method('Authenticate') } },
        Maintenance: { methods: { Status: method('Status') } },
      },
    },
  },
};

/** Parses fields written as in a .proto file, `[rule] type name number` with commas between them, into a protobufjs descriptor. */
function fields(text: string): Record<string, { type: string; id: number; rule?: 'repeated' }> {
  const each = text.split(', ').map((field) => {
    const [id, name, type, rule] = field.split(' ').reverse() as [string, string, string, 'repeated'?];
    return [name, { type, id: Number(id), ...(rule && { rule }) }] as const;
  });
  return Object.fromEntries(each);
}

function method(name: string): { requestType: string; responseType: string } {
  return { requestType: `${name}Request`, responseType: `${name}Response` };
}
