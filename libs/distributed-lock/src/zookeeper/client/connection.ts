import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions as TlsOptions } from 'node:tls';
import type { Clock } from '../../common/clock.js';
import { Linked, LinkedQueue } from '../../common/collections.js';
import { conceal } from '../../common/redaction.js';
import { ServerProtocol } from '../../connection/kept-connection.js';
import { ReplyDeadline } from '../../connection/reply-deadline.js';
import { KEEP_ALIVE_MS } from '../../connection/timing.js';
import {
  CODE,
  ConnectionLostError,
  type Handshake,
  handshakeFrame,
  JuteReader,
  ProtocolError,
  readHandshake,
  type Request,
  ZookeeperError,
  ZookeeperRefusalError,
} from './protocol.js';

/** The default of `jute.maxbuffer`. A server drops a connection that sends it a longer request. */
const MAX_REQUEST_BYTES = 0xfffff;
const EVENT_XID = -1;

const TLS_ADVICE = 'give zookeeperStore the option tls';

const ZOOKEEPER = new ServerProtocol({
  server: 'ZooKeeper',
  // The first bytes of a reply to the handshake: a length of four bytes, which is small.
  reply: /^\0\0\0/,
  tls: TLS_ADVICE,
});

/** One TCP or TLS connection to one server. Sends requests without waiting for earlier replies; the server replies in order. */
export class Connection {
  private readonly socket: Socket;
  private readonly frames = new Frames();
  private readonly pending = new LinkedQueue<Pending>();
  private outgoing: Buffer[] = [];
  private xid = 0;
  /**
   * The server's reply to the handshake, and when we sent the handshake, by our clock. `undefined` until the reply comes;
   * requests can be sent only after it.
   */
  handshake: { readonly reply: Omit<Handshake, 'lastZxid'>; readonly sentAt: number } | undefined;
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
      // A server without TLS may reset the connection when it gets the first bytes of TLS.
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

  /** True while the server has accepted the connection but not yet answered the handshake. */
  private get isUnanswered(): boolean {
    return this.handshakeSentAt < Infinity && !this.handshake;
  }

  /**
   * The error for a server that closed the connection instead of answering the handshake. A ZooKeeper server without a majority
   * does that, so the message names this cause, too.
   */
  private unanswered(cause?: Error): Error {
    const tls = this.options.tls ? 'speaks no TLS' : `expects TLS (${TLS_ADVICE})`;
    const why = `it is no ZooKeeper, or has no majority of its ensemble, or ${tls}`;
    return new Error(`${this.address} closed the connection without an answer: ${why}`, { cause });
  }

  /**
   * Sends a request.
   *
   * @throws ConnectionLostError if the connection is lost before the reply
   * @throws ZookeeperRefusalError if the server replies with an error code
   * @throws ZookeeperError if the request was not sent because of its length
   */
  send<Content>(request: Request<Content>): Promise<Reply<Content>> {
    return new Promise((resolve, reject) => {
      if (this.lostBy) return reject(new ConnectionLostError(this.lostBy));
      const xid = request.xid ?? this.nextXid();
      const frame = request.frame(xid);
      if (frame.length - 4 > MAX_REQUEST_BYTES) return reject(tooLongError(frame.length - 4));
      const { read } = request;
      this.pending.push(new Pending(xid, this.options.clock.now(), { read, resolve, reject }));
      this.write(frame);
      this.deadline.start();
    });
  }

  /** Closes the socket at once, without waiting for the server. */
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
    const strange = this.handshake ? undefined : ZOOKEEPER.strangeReply(chunk);
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
    if (this.handshake) return this.onReply(reader);
    this.handshake = { reply: readHandshake(reader), sentAt: this.handshakeSentAt };
    this.listener.onOpen();
  }

  private onReply(reader: JuteReader): void {
    const xid = reader.int();
    if (xid === EVENT_XID) return this.listener.onWatch(watchedPath(reader));
    const zxid = reader.number();
    const code = reader.int();
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
    // A destroyed socket may still emit an error. Without a listener, Node would end the process.
    this.socket.on('error', () => undefined);
    this.listener.onLost(error);
    const unanswered = Array.from(this.pending, ({ reply }) => reply);
    for (const { reject } of unanswered) reject(new ConnectionLostError(error));
  }

  /** The oldest request without a reply. It is the only one that can be overdue, because the server replies in order. */
  private get oldest(): readonly Pending[] {
    const [oldest] = this.pending;
    return oldest && !this.lostBy ? [oldest] : [];
  }

  private nextXid(): number {
    this.xid = this.xid === 0x7fffffff ? 1 : this.xid + 1;
    return this.xid;
  }

  /** Queues a frame. All frames that are queued before the next tick are written with one system call. */
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

export interface Server {
  readonly host: string;
  readonly port: number;
  /** The IP address of the host to connect to. If absent, Node resolves the host name. */
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
  /** If a request waits for its reply for this many ms and the server sends nothing, the connection is given up. */
  readonly silentMs: number;
}

/** Order of the calls: `onOpen` first, once; then `onWatch` and `onZxid`, any number of times; `onLost` last, once. */
interface ConnectionListener {
  onOpen(): void;
  /** The znode at this path has changed. ZooKeeper has ended the watch. */
  onWatch(path: string): void;
  /** Called with the zxid in each reply: the server has executed all transactions up to it. */
  onZxid(zxid: number): void;
  /** The connection is lost. The requests without a reply are rejected right after this call. */
  onLost(error: Error): void;
}

export interface Reply<Content> {
  readonly content: Content;
  /**
   * The zxid of the transaction that executed the request. In the reply to a read: the newest transaction that the server had
   * executed.
   */
  readonly zxid: number;
}

function connectTo({ host: name, port, address: host = name }: Server, tls: TlsOptions | undefined): Socket {
  return tls ? connectTls({ servername: nameOf(name), ...tls, host, port }) : connectTcp({ host, port });
}

export function serverAddress({ host, port, address }: Server): string {
  const server = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  return address === undefined ? server : `${server} (${address})`;
}

/** Reads the rest of a watch event: the znode that has changed. */
function watchedPath(reader: JuteReader): string {
  reader.long(); // -1 in place of a zxid
  reader.int(); // no error code
  reader.int(); // the kind of change: created, deleted, changed, or children
  reader.int(); // the state of the session
  return reader.text();
}

function tooLongError(bytes: number): ZookeeperError {
  const message = `a request of ${bytes} bytes; a server takes ${MAX_REQUEST_BYTES} (its jute.maxbuffer), so fewer may hold or wait for one key, or be acquired together`;
  return new ZookeeperError('refused', message);
}

/** The server name for TLS. '' for an IP address, because TLS allows no address as a server name (RFC 6066). */
function nameOf(host: string): string {
  return /^[\d.]+$|:/.test(host) ? '' : host;
}

/** A frame longer than this cannot be a reply of ZooKeeper, so the connection is closed. */
const MAX_REPLY_BYTES = 16 * 1024 * 1024;

/** Splits the bytes that arrive on a connection into messages. */
export class Frames {
  private chunks: Buffer[] = [];
  private length = 0;
  /** How many bytes must have arrived before the next message is complete. */
  private needed = 4;

  /**
   * Adds a chunk.
   *
   * @returns the messages that are complete now
   * @throws ProtocolError for a length that no message can have
   */
  read(chunk: Buffer): readonly Buffer[] {
    this.chunks.push(chunk);
    this.length += chunk.length;
    if (this.length < this.needed) return [];
    const bytes = this.chunks.length === 1 ? chunk : Buffer.concat(this.chunks, this.length);
    const frames: Buffer[] = [];
    let at = 0;
    this.needed = 4;
    while (at + 4 <= bytes.length) {
      const length = bytes.readInt32BE(at);
      if (length < 0 || length > MAX_REPLY_BYTES) {
        throw new ProtocolError(
          `a message of ${length} bytes, where at most ${MAX_REPLY_BYTES} are expected`,
        );
      }
      if (at + 4 + length > bytes.length) {
        this.needed = 4 + length;
        break;
      }
      frames.push(bytes.subarray(at + 4, at + 4 + length));
      at += 4 + length;
    }
    const rest = bytes.subarray(at);
    this.chunks = rest.length > 0 ? [rest] : [];
    this.length = rest.length;
    return frames;
  }
}
