import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions as TlsOptions } from 'node:tls';
import type { Clock } from '../../common/clock.js';
import { Linked, LinkedQueue } from '../../common/collections.js';
import { conceal } from '../../common/redaction.js';
import { type OwnProtocol, strangeReply } from '../../connection/kept-connection.js';
import { ReplyDeadline } from '../../connection/request-pipe.js';
import { KEEP_ALIVE_MS } from '../../connection/timing.js';
import { Frames, JuteReader, MAX_REQUEST_BYTES, ProtocolError } from './jute.js';
import {
  CODE,
  frameOf,
  type Handshake,
  handshakeFrame,
  type HandshakeReply,
  readEvent,
  readHandshake,
  readHead,
  type ReplyHead,
  type Request,
  type WatchEvent,
  ZookeeperRefusalError,
} from './requests.js';

/** The request was sent, or may have been, and no reply has come: the server may have executed it. */
export class ConnectionLostError extends Error {
  constructor(override readonly cause: Error) {
    super(cause.message);
  }
}

/** The request is longer than a server takes. It was not sent. */
export class RequestTooLongError extends Error {
  constructor(readonly bytes: number) {
    super(
      `a request of ${bytes} bytes; a server takes ${MAX_REQUEST_BYTES} (its jute.maxbuffer), so fewer may hold or wait for one key, or be acquired together`,
    );
  }
}

class Pending extends Linked {
  constructor(
    readonly xid: number,
    readonly since: number,
    readonly reply: AwaitedReply,
  ) {
    super();
  }
}

interface AwaitedReply {
  readonly read: (reader: JuteReader) => unknown;
  readonly resolve: (reply: Reply<never>) => void;
  readonly reject: (error: Error) => void;
}

const EVENT_XID = -1;

const ZOOKEEPER: OwnProtocol = {
  server: 'ZooKeeper',
  // The length of the reply to the handshake, in four bytes.
  reply: /^\0\0\0/,
  tls: 'give zookeeperStore the option tls',
};

/**
 * One connection to one server. Requests are sent without waiting for the replies to earlier ones, and the server replies
 * in order.
 */
export class Connection {
  private readonly socket: Socket;
  private readonly frames = new Frames();
  private readonly pending = new LinkedQueue<Pending>();
  private outgoing: Buffer[] = [];
  private xid = 0;
  /**
   * The reply to the handshake, and our time before the handshake was sent. `undefined` until the reply has come; then requests can
   * be sent.
   */
  handshake: { readonly reply: HandshakeReply; readonly sentAt: number } | undefined;
  lostBy: Error | undefined;
  private handshakeSentAt = Infinity;
  private readonly deadline: ReplyDeadline<Pending>;

  constructor(
    private readonly options: ConnectionOptions,
    private readonly listener: ConnectionListener,
  ) {
    conceal(this, 'options', 'socket');
    const { clock, server, connect = connectTo, tls, silentMs } = options;
    this.deadline = new ReplyDeadline({
      clock,
      commandTimeoutMs: silentMs,
      unanswered: () => this.oldest,
      onDue: (isDue) => {
        if (this.oldest.some(isDue))
          this.lose(new Error(`${this.address} answered nothing for ${silentMs} ms`));
      },
    });
    this.socket = connect(server, tls);
    this.socket.setNoDelay(true).setKeepAlive(true, KEEP_ALIVE_MS);
    this.socket.once(tls ? 'secureConnect' : 'connect', () => this.onConnected());
    this.socket.on('data', (chunk) => this.onData(chunk));
    this.socket.on('error', (error: NodeJS.ErrnoException) => {
      // A server that does not understand what TLS begins with may reset the connection.
      const isReset = error.syscall === 'read' && !this.handshake;
      this.lose(isReset || this.isUnanswered ? this.unanswered(error) : error);
    });
    this.socket.on('close', () =>
      this.lose(this.isUnanswered ? this.unanswered() : new Error(`${this.address} closed the connection`)),
    );
  }

  get address(): string {
    return serverAddress(this.options.server);
  }

  /** The server has taken the connection, and has sent nothing yet. */
  private get isUnanswered(): boolean {
    return this.handshakeSentAt < Infinity && !this.handshake;
  }

  /**
   * The error of a connection that was closed before the server answered. A server without a majority closes its connections like
   * that, too.
   */
  private unanswered(cause?: Error): Error {
    const tls = this.options.tls ? 'speaks no TLS' : `expects TLS (${ZOOKEEPER.tls})`;
    const why = `it is no ZooKeeper, or has no majority of its ensemble, or ${tls}`;
    return new Error(`${this.address} closed the connection without an answer: ${why}`, { cause });
  }

  /** @throws ConnectionLostError without a reply; ZookeeperRefusalError; RequestTooLongError */
  send<Content>(request: Request<Content>): Promise<Reply<Content>> {
    return new Promise((resolve, reject) => {
      if (this.lostBy) return reject(new ConnectionLostError(this.lostBy));
      const xid = request.xid ?? this.nextXid();
      const frame = frameOf(request, xid);
      if (frame.length - 4 > MAX_REQUEST_BYTES) return reject(new RequestTooLongError(frame.length - 4));
      const { read } = request;
      this.pending.push(new Pending(xid, this.options.clock.now(), { read, resolve, reject }));
      this.write(frame);
      this.deadline.start();
    });
  }

  /** Ends the connection at once, whatever the server does. */
  destroy(error = new Error('the connection was closed')): void {
    this.lose(error);
  }

  private onConnected(): void {
    const { handshake, clock } = this.options;
    this.handshakeSentAt = clock.now();
    this.socket.write(handshakeFrame(handshake));
  }

  private onData(chunk: Buffer): void {
    if (this.lostBy) return;
    const strange = this.handshake ? undefined : strangeReply(chunk, ZOOKEEPER);
    if (strange !== undefined) return this.lose(new Error(`${this.address}: ${strange}`));
    try {
      for (const frame of this.frames.read(chunk)) if (!this.lostBy) this.onFrame(frame);
    } catch (cause) {
      if (!(cause instanceof ProtocolError)) throw cause;
      this.lose(
        new Error(`${this.address} sent what is not ZooKeeper's protocol: ${cause.message}`, { cause }),
      );
    }
  }

  private onFrame(frame: Buffer): void {
    const reader = new JuteReader(frame);
    this.deadline.onReply();
    if (this.handshake) return this.onReply(readHead(reader), reader);
    const reply = readHandshake(reader);
    this.handshake = { reply, sentAt: this.handshakeSentAt };
    this.listener.onOpen();
  }

  private onReply({ xid, zxid, code }: ReplyHead, reader: JuteReader): void {
    if (xid === EVENT_XID) return this.listener.onEvent(readEvent(reader));
    const pending = this.pending.shift();
    try {
      if (pending?.xid !== xid) {
        throw new ProtocolError(`a reply to request ${xid} instead of ${pending?.xid ?? 'none'}`);
      }
      this.listener.onZxid(zxid);
      const content = code === CODE.ok ? pending.reply.read(reader) : undefined;
      if (code === CODE.ok) pending.reply.resolve({ content: content as never, zxid });
      else pending.reply.reject(new ZookeeperRefusalError(code));
    } catch (error) {
      pending?.reply.reject(new ConnectionLostError(error as Error));
      throw error;
    }
    if (code === CODE.sessionMoved) this.lose(new ZookeeperRefusalError(code));
  }

  private lose(error: Error): void {
    if (this.lostBy) return;
    this.lostBy = error;
    this.deadline.stop();
    this.flush();
    this.socket.destroy();
    // Without a listener a late error of the socket would end the process.
    this.socket.on('error', () => undefined);
    this.listener.onLost(error);
    const unanswered = Array.from(this.pending, ({ reply }) => reply);
    for (const { reject } of unanswered) reject(new ConnectionLostError(error));
  }

  /** The server replies in order, so that no other request is due before this one. */
  private get oldest(): readonly Pending[] {
    const [oldest] = this.pending;
    return oldest && !this.lostBy ? [oldest] : [];
  }

  private nextXid(): number {
    this.xid = this.xid === 0x7fffffff ? 1 : this.xid + 1;
    return this.xid;
  }

  /** Requests that come before the next tick share a system call. */
  private write(frame: Buffer): void {
    this.outgoing.push(frame);
    if (this.outgoing.length === 1) process.nextTick(() => this.flush());
  }

  private flush(): void {
    const { outgoing } = this;
    this.outgoing = [];
    if (outgoing.length === 0 || !this.socket.writable) return;
    this.socket.write(outgoing.length === 1 ? (outgoing[0] as Buffer) : Buffer.concat(outgoing));
  }
}

export interface Server {
  readonly host: string;
  readonly port: number;
  /** One of the addresses of the host. By default the host is resolved. */
  readonly address?: string;
}

export type Connect = (server: Server, tls: TlsOptions | undefined) => Socket;

interface ConnectionOptions {
  readonly clock: Clock;
  readonly server: Server;
  /** Opens the socket, for tests without a network; default: TCP or TLS. */
  readonly connect?: Connect | undefined;
  readonly tls: TlsOptions | undefined;
  readonly handshake: Handshake;
  /** A server that answers nothing for so long, although something was asked, is given up. */
  readonly silentMs: number;
}

/** Called in this order: `onOpen` once, `onEvent` and `onZxid` any time after it, and at the end `onLost` once. */
interface ConnectionListener {
  onOpen(): void;
  onEvent(event: WatchEvent): void;
  /** The server has executed this transaction. */
  onZxid(zxid: number): void;
  /** Nothing can be sent any more. The requests without a reply are rejected next. */
  onLost(error: Error): void;
}

export interface Reply<Content> {
  readonly content: Content;
  /** The transaction of the request. For a reading it is the newest transaction that the server had executed. */
  readonly zxid: number;
}

function connectTo({ host: name, port, address: host = name }: Server, tls: TlsOptions | undefined): Socket {
  return tls ? connectTls({ servername: nameOf(name), ...tls, host, port }) : connectTcp({ host, port });
}

export function serverAddress({ host, port, address }: Server): string {
  const server = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  return address === undefined ? server : `${server} (${address})`;
}

/** @returns '' for an IP address, because no server can be asked for a certificate of that name */
function nameOf(host: string): string {
  return /^[\d.]+$|:/.test(host) ? '' : host;
}
