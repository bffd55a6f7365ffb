import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { RespRequests } from './resp-requests.js';

/** One direction of one connection. What is dropped is gone; what is held is delivered, in order, by `pass`. */
export class Flow {
  /** How many bytes are on hold, and how many have vanished. */
  heldBytes = 0;
  droppedBytes = 0;
  private mode: 'pass' | 'hold' | 'drop' = 'pass';
  private delayMs = 0;
  private held: Buffer[] = [];

  constructor(private readonly to: Socket) {}

  /** @param delayMs how late each piece arrives from now on */
  pass(delayMs = 0): void {
    this.mode = 'pass';
    this.delayMs = delayMs;
    const held = this.held.splice(0);
    this.heldBytes = 0;
    for (const chunk of held) this.carry(chunk);
  }

  hold(): void {
    this.mode = 'hold';
  }

  drop(): void {
    this.mode = 'drop';
  }

  carry(chunk: Buffer): void {
    if (this.mode === 'drop') this.droppedBytes += chunk.length;
    else if (this.mode === 'hold') {
      this.heldBytes += chunk.length;
      this.held.push(chunk);
    } else if (this.delayMs > 0) setTimeout(() => this.write(chunk), this.delayMs);
    else this.write(chunk);
  }

  private write(chunk: Buffer): void {
    if (this.to.writable) this.to.write(chunk);
  }
}

/** One connection of a client, and ours to the server for it. */
export class Link {
  readonly requests: Flow;
  readonly replies: Flow;
  /** Every command that the client has written, delivered or not. */
  readonly commands: string[][] = [];
  isOpen = true;

  constructor(
    private readonly client: Socket,
    private readonly server: Socket,
  ) {
    this.requests = new Flow(server);
    this.replies = new Flow(client);
    const parser = new RespRequests();
    client.on('data', (chunk: Buffer) => {
      this.commands.push(...parser.read(chunk));
      this.requests.carry(chunk);
    });
    server.on('data', (chunk: Buffer) => this.replies.carry(chunk));
    client.on('close', () => this.onClientClosed());
    server.on('close', () => client.destroy());
    for (const socket of [client, server]) socket.setNoDelay(true).on('error', () => undefined);
  }

  /** Whether the client has ever written the command `name` here. */
  has(name: string): boolean {
    return this.commands.some(([written]) => written?.toLowerCase() === name);
  }

  /** Bytes vanish both ways; nobody is told. */
  vanish(): void {
    this.requests.drop();
    this.replies.drop();
  }

  /** The client sees a broken connection. Requests on hold stay in flight: `deliverLate` lets them arrive. */
  reset(): void {
    this.client.resetAndDestroy();
  }

  /** The server reads what was on hold, though the client has gone. */
  deliverLate(): void {
    this.requests.pass();
    this.server.end();
  }

  destroy(): void {
    this.client.destroy();
    this.server.destroy();
  }

  private onClientClosed(): void {
    this.isOpen = false;
    if (this.requests.heldBytes === 0) this.server.destroy();
  }
}

/** Stands between one client and a Redis server, and does to their bytes what networks do. */
export class TcpProxy {
  /** Applied to each new connection. */
  onLink: (link: Link) => void = () => undefined;
  readonly all: Link[] = [];

  private constructor(
    private readonly server: Server,
    private readonly targetPort: number,
  ) {
    server.on('connection', (client) => {
      const link = new Link(client, connect(this.targetPort, '127.0.0.1'));
      this.all.push(link);
      this.onLink(link);
    });
  }

  static async before(targetPort: number): Promise<TcpProxy> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new TcpProxy(server, targetPort);
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  get open(): Link[] {
    return this.all.filter((link) => link.isOpen);
  }

  /** The connection on which the client waits for pushes. */
  get pushes(): Link {
    return newest(this.open.filter((link) => link.has('subscribe')));
  }

  /** The connection on which the client sends commands; it asks for the server's time first. */
  get commands(): Link {
    return newest(this.open.filter((link) => link.has('time')));
  }

  async close(): Promise<void> {
    this.server.close();
    for (const link of this.all) link.destroy();
    await once(this.server, 'close');
  }
}

function newest(links: Link[]): Link {
  const link = links.at(-1);
  if (!link) throw new Error('There is no such connection.');
  return link;
}
