/** The messages of etcd's API that this store sends and reads, as far as it uses them. Bytes are buffers. */

export interface Header {
  readonly revision: number;
  /** Grows with each election. */
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
  /** The key keeps its lease. */
  readonly ignoreLease?: boolean;
}

export interface Compare {
  readonly result: 'EQUAL' | 'GREATER' | 'LESS';
  readonly target: 'CREATE' | 'MOD' | 'VALUE';
  readonly key: Buffer;
  readonly createRevision?: number;
  readonly modRevision?: number;
  readonly value?: Buffer;
  /** The end of a range: the comparison must hold for all keys from `key` to this one. */
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

/** The reply to a transaction. The reply to one inside another has no header. */
export interface TxnReply {
  readonly header: Header | null;
  readonly succeeded: boolean;
  readonly responses: readonly ResponseOp[];
}

export interface WatchReply {
  readonly header: Header | null;
  readonly created: boolean;
  readonly canceled: boolean;
  /** The oldest revision that etcd still keeps, when the watch asks for an older one. */
  readonly compactRevision: number;
  readonly cancelReason: string;
  readonly events: readonly { readonly type: 'PUT' | 'DELETE'; readonly kv: EtcdKeyValue | null }[];
}

/** Requests and replies of the calls with one reply. */
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
    /** `leader` is 0 while the member knows of none. */
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
