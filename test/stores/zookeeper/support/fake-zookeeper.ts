import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { Frames } from '../../../../libs/distributed-lock/src/zookeeper/client/connection.js';
import { JuteReader, JuteWriter } from '../../../../libs/distributed-lock/src/zookeeper/client/protocol.js';

export interface FakeRequest {
  readonly xid: number;
  readonly op: number;
  readonly socket: Socket;
}

/** Speaks the frames of ZooKeeper, and answers as a test tells it. */
export class FakeZookeeper {
  /** Session ids that clients came with: 0 for a new session. */
  readonly handshakes: bigint[] = [];
  readonly requests: FakeRequest[] = [];
  readonly sockets = new Set<Socket>();
  sessionMs = 10_000;
  onHandshake = (socket: Socket): void => this.accept(socket);
  onRequest = (request: FakeRequest): void => this.answer(request);

  private constructor(private readonly server: Server) {
    server.on('connection', (socket) => this.serve(socket));
  }

  static async start(): Promise<FakeZookeeper> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new FakeZookeeper(server);
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  accept(socket: Socket, { sessionMs = this.sessionMs, isReadOnly = false } = {}): void {
    const reply = new JuteWriter()
      .int(0)
      .int(sessionMs)
      .long(77n)
      .buffer(Buffer.alloc(16, 1))
      .bool(isReadOnly);
    socket.write(reply.frame());
  }

  /** With the path, as `sync` is answered, or with an error. */
  answer({ xid, socket }: Pick<FakeRequest, 'xid' | 'socket'>, code = 0): void {
    socket.write(new JuteWriter().int(xid).long(100n).int(code).text('/').frame());
  }

  async stop(): Promise<void> {
    this.server.close();
    for (const socket of this.sockets) socket.destroy();
    await once(this.server, 'close');
  }

  private serve(socket: Socket): void {
    this.sockets.add(socket);
    const frames = new Frames();
    let isOpen = false;
    socket.on('error', () => undefined).on('close', () => this.sockets.delete(socket));
    socket.on('data', (chunk) => {
      for (const frame of frames.read(chunk)) {
        const reader = new JuteReader(frame);
        if (isOpen) {
          const request = { xid: reader.int(), op: reader.int(), socket };
          this.requests.push(request);
          this.onRequest(request);
        } else {
          isOpen = true;
          reader.int();
          reader.long();
          reader.int();
          this.handshakes.push(reader.long());
          this.onHandshake(socket);
        }
      }
    });
  }
}
