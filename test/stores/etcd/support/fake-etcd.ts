import type { Server, ServiceDefinition, UntypedServiceImplementation } from '@grpc/grpc-js';
import { loadGrpc } from '../../../../libs/distributed-lock/src/etcd/grpc.js';
import type {
  Calls,
  EtcdKeyValue,
  RequestOp,
  TxnRequest,
} from '../../../../libs/distributed-lock/src/etcd/grpc.js';

type Answers = Partial<Record<keyof Calls | 'Watch', (request: never) => object>>;

interface StreamCall {
  on(event: 'data', listener: (request: never) => void): StreamCall;
  on(event: 'end', listener: () => void): StreamCall;
  write(reply: object): void;
  end(): void;
}

/**
 * A server that says what a test wants of it, on a free port. What an answer throws is the error of the call. A call
 * without an answer is refused as gRPC does.
 */
export class FakeEtcd {
  private constructor(
    private readonly server: Server,
    readonly address: string,
  ) {}

  static async start(answers: Answers): Promise<FakeEtcd> {
    const { grpc, methods } = await loadGrpc();
    const server = new grpc.Server();
    const all: Answers = { Status: () => ({ version: '3.4.23', leader: 1 }), ...answers };
    for (const [name, answer] of Object.entries(all)) {
      const method = methods[name as keyof Calls | 'Watch'];
      const unary = (call: { readonly request: never }, reply: (error: unknown, value?: object) => void) => {
        try {
          reply(null, answer(call.request));
        } catch (error) {
          reply(error);
        }
      };
      const stream = (call: StreamCall) =>
        call.on('data', (request) => call.write(answer(request))).on('end', () => call.end());
      const handler = (method.requestStream
        ? stream
        : unary) as unknown as UntypedServiceImplementation[string];
      server.addService({ [name]: method } as ServiceDefinition, { [name]: handler });
    }
    const port = await new Promise<number>((resolve, reject) => {
      server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      );
    });
    return new FakeEtcd(server, `127.0.0.1:${port}`);
  }

  stop(): void {
    this.server.forceShutdown();
  }
}

/** Keys for one client: each comparison of its transactions comes out equal. */
export class FakeKeys {
  private readonly kvs = new Map<string, EtcdKeyValue>();
  private revision = 1;

  constructor(private readonly raftTerm: () => number) {}

  readonly txn = ({ success }: TxnRequest): object => {
    this.revision += 1;
    const header = { revision: this.revision, raftTerm: this.raftTerm() };
    return { header, succeeded: true, responses: success.map((operation) => this.execute(operation)) };
  };

  private execute({ requestPut, requestRange, requestDeleteRange, requestTxn }: RequestOp): object {
    if (requestPut) {
      const { key, value } = requestPut;
      const modRevision = this.revision;
      this.kvs.set(String(key), { key, value, createRevision: modRevision, modRevision });
    }
    if (requestDeleteRange) this.kvs.delete(String(requestDeleteRange.key));
    if (requestTxn) {
      return {
        responseTxn: {
          succeeded: true,
          responses: requestTxn.success.map((operation) => this.execute(operation)),
        },
      };
    }
    const found = requestRange && this.kvs.get(String(requestRange.key));
    const kvs = found && !requestRange?.rangeEnd?.length ? [found] : [];
    return requestRange ? { responseRange: { kvs, count: kvs.length } } : {};
  }
}
