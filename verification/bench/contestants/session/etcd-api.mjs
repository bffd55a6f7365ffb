import { Client, credentials } from '@grpc/grpc-js';
import { fromJSON } from '@grpc/proto-loader';

/** @param {string} text as in a .proto file: rule, type, name and number of each field */
const fields = (text) => ({
  fields: Object.fromEntries(
    text.split(', ').map((field) => {
      const [id, name, type, rule] = field.split(' ').reverse();
      return [name, { type, id: Number(id), ...(rule && { rule }) }];
    }),
  ),
});
const call = (name) => ({ requestType: `${name}Request`, responseType: `${name}Response` });
const calls = (...names) => ({ methods: Object.fromEntries(names.map((name) => [name, call(name)])) });

/** The part of etcd's API, version 3, that the benchmark itself uses. The numbers are etcd's own. */
const DESCRIPTOR = {
  nested: {
    v3lockpb: {
      nested: {
        LockRequest: fields('bytes name 1, int64 lease 2'),
        LockResponse: fields('bytes key 2'),
        UnlockRequest: fields('bytes key 1'),
        UnlockResponse: { fields: {} },
        Lock: calls('Lock', 'Unlock'),
      },
    },
    etcdserverpb: {
      nested: {
        ResponseHeader: fields('int64 revision 3'),
        PutRequest: fields('bytes key 1, bytes value 2, int64 lease 3'),
        DeleteRangeRequest: fields('bytes key 1, bytes rangeEnd 2'),
        DeleteRangeResponse: fields('ResponseHeader header 1'),
        Compare: {
          ...fields('Target target 2, bytes key 3, int64 createRevision 5, bytes value 7'),
          oneofs: { union: { oneof: ['createRevision', 'value'] } },
          nested: { Target: { values: { VERSION: 0, CREATE: 1, MOD: 2, VALUE: 3 } } },
        },
        RequestOp: {
          ...fields('PutRequest requestPut 2, DeleteRangeRequest requestDeleteRange 3'),
          oneofs: { request: { oneof: ['requestPut', 'requestDeleteRange'] } },
        },
        TxnRequest: fields('repeated Compare compare 1, repeated RequestOp success 2'),
        TxnResponse: fields('bool succeeded 2'),
        CompactionRequest: fields('int64 revision 1, bool physical 2'),
        CompactionResponse: { fields: {} },
        LeaseGrantRequest: fields('int64 TTL 1'),
        LeaseGrantResponse: fields('int64 ID 2'),
        LeaseRevokeRequest: fields('int64 ID 1'),
        LeaseRevokeResponse: { fields: {} },
        LeaseLeasesRequest: { fields: {} },
        LeaseLeasesResponse: fields('repeated LeaseStatus leases 2'),
        LeaseStatus: fields('int64 ID 1'),
        StatusRequest: { fields: {} },
        StatusResponse: fields('string version 2'),
        KV: { methods: { ...calls('Txn', 'DeleteRange').methods, Compact: call('Compaction') } },
        Lease: calls('LeaseGrant', 'LeaseRevoke', 'LeaseLeases'),
        Maintenance: calls('Status'),
      },
    },
  },
};

/** A lease's id needs all 64 bits. */
const definition = fromJSON(DESCRIPTOR, { longs: String, enums: String, defaults: true });
const METHODS = Object.assign(
  {},
  ...['etcdserverpb.KV', 'etcdserverpb.Lease', 'etcdserverpb.Maintenance', 'v3lockpb.Lock'].map(
    (service) => definition[service],
  ),
);

/**
 * One connection to etcd, by the same gRPC client as our store's.
 *
 * @param {string} url `http://host:port`
 */
export function connectEtcd(url) {
  // Otherwise gRPC gives all clients of a process one connection.
  const client = new Client(new URL(url).host, credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
  });
  /** @param {keyof typeof METHODS} name @param {object} [request] @returns {Promise<any>} */
  const ask = (name, request = {}) => {
    const { path, requestSerialize, responseDeserialize } = METHODS[name];
    return new Promise((resolve, reject) => {
      client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, (error, reply) =>
        error ? reject(error) : resolve(reply),
      );
    });
  };
  return { ask, close: () => client.close() };
}

/** Longer than any run. */
export const LEASE_SECONDS = 600;
