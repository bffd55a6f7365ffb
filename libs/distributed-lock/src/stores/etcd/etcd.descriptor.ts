/**
 * The part of etcd's API, version 3, that this store uses, as protobufjs describes it. The numbers are etcd's own. The names
 * of fields do not go over the wire, those of services, calls and packages do.
 */
export const ETCD_DESCRIPTOR = {
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

/** @param text as in a .proto file: rule, type, name and number of each field */
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
