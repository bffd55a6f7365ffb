import type { Server, ServiceDefinition, UntypedServiceImplementation } from '@grpc/grpc-js';
import { loadGrpc } from '../../../../libs/distributed-lock/src/stores/session/etcd/etcd.grpc.js';
import type { CallName } from '../../../../libs/distributed-lock/src/stores/session/etcd/etcd.messages.js';

type Answers = Partial<Record<CallName, (request: object) => object>>;

/** A server that says what a test wants of it, on a free port. A call without an answer is refused as gRPC does. */
export class FakeEtcd {
  private constructor(
    private readonly server: Server,
    readonly address: string,
  ) {}

  static async start(answers: Answers): Promise<FakeEtcd> {
    const { grpc, methods } = await loadGrpc();
    const server = new grpc.Server();
    for (const [name, answer] of Object.entries({
      Status: () => ({ version: '3.4.23', leader: 1 }),
      ...answers,
    })) {
      const handler: UntypedServiceImplementation[string] = (
        call: { readonly request: object },
        reply: (error: null, value: object) => void,
      ) => reply(null, answer(call.request));
      server.addService({ [name]: methods[name as CallName] } as ServiceDefinition, { [name]: handler });
    }
    const port = await new Promise<number>((resolve, reject) =>
      server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      ),
    );
    return new FakeEtcd(server, `127.0.0.1:${port}`);
  }

  stop(): void {
    this.server.forceShutdown();
  }
}
