import type { ConnectionOptions as TlsOptions } from 'node:tls';
import { inBackground } from '../../../../async/in-background.js';
import { leaseValidity } from '../../../../port/lease-validity.js';
import { conceal } from '../../../../printing/conceal.js';
import { afterReading } from '../../../../time/after-reading.js';
import type { Clock } from '../../../../time/clock.js';
import { reconnectDelay } from '../../../common/reconnect-delay.js';
import { CODE, ZookeeperRefusal } from './codes.js';
import { addressOf, Connection, type Reply, type Server } from './connection.js';
import {
  addAuth,
  closeSession,
  hexOf,
  type HandshakeReply,
  type Request,
  type WatchEvent,
} from './requests.js';

export interface SessionOptions {
  readonly clock: Clock;
  /** Tried one after the other, in this order. */
  readonly servers: readonly Server[];
  readonly tls: TlsOptions | undefined;
  /** `user:password` */
  readonly credentials: string | undefined;
  /** The length to ask for. */
  readonly timeoutMs: number;
  /** Within this time a server must answer, and a connection must be found for a request. */
  readonly commandTimeoutMs: number;
  /** The newest transaction that this client has seen in its sessions before. */
  readonly lastZxid: number;
  /** Sends a write, whatever it writes: its reply shows that the leader had a majority behind it. */
  readonly keepAlive: (session: ZookeeperSession) => Promise<unknown>;
}

export interface SessionListener {
  /** Each time that requests can be sent. */
  onConnected(): void;
  onDisconnected(error: Error): void;
  onEvent(event: WatchEvent): void;
  /** The session is over, and its ephemeral znodes are gone or soon will be. Nothing follows. */
  onEnd(error: Error): void;
}

/** No connection was found in time. The request was not sent. */
export class NotConnected extends Error {}

/** The session is over, so the request was not executed. */
export class SessionEnded extends Error {}

interface Waiting {
  readonly since: number;
  send(connection: Connection): void;
  reject(error: Error): void;
}

export const KEEP_ALIVES_PER_SESSION = 10;
/**
 * A follower tells the leader twice a tick which sessions it has heard, and a session has two ticks at least. So what a
 * follower had heard a quarter of a session before it had its next write executed, the leader knew by then.
 */
const TOLD_AFTER = 1 / 4;
/** A session that could not be resumed for so many times its length is over, whatever happened to the servers. */
const RESUMED_WITHIN = 2;

/**
 * One session with an ensemble of servers, on one connection after the other. It lives on while it moves to another server
 * within its time.
 *
 * The leader ends sessions. Any server answers a ping or a reading, also one that is cut off from the leader, and a leader
 * that has lost its majority answers for some seconds more. So validity counts neither from these nor from the last write,
 * but from what the server had heard before an answered write: that the leader had been told by then, and each later
 * leader counts the session from its election.
 *
 * A request without a reply when its connection is lost is rejected, and never sent again. The servers execute what one
 * session sends in order, and nothing of a connection that the session has left, so such a request was executed before
 * everything that is sent later, or never is.
 */
export class ZookeeperSession {
  private connection: Connection | undefined;
  private opened: Connection | undefined;
  private sessionId = 0n;
  private password: Buffer = Buffer.alloc(16);
  private grantedMs = 0;
  private zxid: number;
  private nextServer = 0;
  private failures = 0;
  private isOver = false;
  private waiting: Waiting[] = [];
  private cancelWaiting: (() => void) | undefined;
  private cancelReconnect = (): void => undefined;
  private cancelKeepAlive = (): void => undefined;
  /** The server had heard of this client at these moments, before the last write that it answered. */
  private heard: number[] = [];
  /** The leader counts the session from this moment or a later one. */
  private countedFrom = -Infinity;
  private lastError = new Error('no server was tried yet');

  constructor(
    private readonly options: SessionOptions,
    private readonly listener: SessionListener,
  ) {
    conceal(this, 'options', 'connection', 'opened', 'password');
    this.zxid = options.lastZxid;
    this.connect();
  }

  /** In hexadecimal digits. */
  get id(): string {
    return hexOf(this.sessionId);
  }

  /** The length that the servers have granted, in ms. */
  get timeoutMs(): number {
    return this.grantedMs;
  }

  /** The newest transaction that this client has seen. */
  get lastZxid(): number {
    return this.zxid;
  }

  /** Until when, on our clock, the servers keep the session for certain. */
  get validUntil(): number {
    return this.isOver ? -Infinity : leaseValidity(this.countedFrom, this.grantedMs);
  }

  get isConnected(): boolean {
    return this.opened !== undefined;
  }

  /** Why there is no connection. */
  get error(): Error {
    return this.lastError;
  }

  /**
   * Sends a request, on the next connection if there is none.
   *
   * @throws NotConnected or SessionEnded: it was not sent; ConnectionLost: nobody knows; ZookeeperRefusal
   */
  send<Content>(request: Request<Content>): Promise<Reply<Content>> {
    if (this.isOver) return Promise.reject(new SessionEnded(this.lastError.message));
    if (this.opened) return this.opened.send(request).catch((error: unknown) => this.onRefused(error));
    return new Promise((resolve, reject) => {
      this.waiting.push({
        since: this.options.clock.now(),
        send: (connection) => {
          connection
            .send(request)
            .catch((error: unknown) => this.onRefused(error))
            .then(resolve, reject);
        },
        reject,
      });
      if (!this.cancelWaiting) this.armWaiting(this.options.commandTimeoutMs);
    });
  }

  /** Ends the session on the servers, too, unless its ephemeral znodes are to stay for the rest of its time. */
  async close(keepSession: boolean): Promise<void> {
    if (this.isOver) return;
    const { opened } = this;
    this.end(new Error('the store is closed'));
    if (opened && !keepSession) await opened.send(closeSession).catch(() => undefined);
    opened?.destroy();
    this.connection?.destroy();
  }

  // --- connected, lost ------------------------------------------------------------------------------------------

  private connect(): void {
    const { clock, servers, tls, timeoutMs, commandTimeoutMs } = this.options;
    const server = servers[this.nextServer++ % servers.length] as Server;
    const { sessionId, password, zxid: lastZxid } = this;
    const connection: Connection = new Connection(
      {
        clock,
        server,
        tls,
        handshake: { sessionId, password, timeoutMs, lastZxid },
        openMs: 2 * Math.max(commandTimeoutMs, 100),
        silentMs: commandTimeoutMs,
      },
      {
        onOpen: (reply, sentAt) => this.onOpen(connection, reply, { sentAt, server }),
        onEvent: (event) => this.listener.onEvent(event),
        onZxid: (zxid) => (this.zxid = Math.max(this.zxid, zxid)),
        onLost: (error) => this.onLost(connection, error),
      },
    );
    this.connection = connection;
  }

  private onOpen(
    connection: Connection,
    reply: HandshakeReply,
    { sentAt, server }: { readonly sentAt: number; readonly server: Server },
  ): void {
    if (this.isOver) return connection.destroy();
    if (reply.timeoutMs <= 0) {
      this.expire(new Error('the servers have ended the session, as nothing was heard of it in time'));
      return connection.destroy();
    }
    if (reply.isReadOnly) {
      return connection.destroy(new Error(`${addressOf(server)} only reads: it is cut off from the others`));
    }
    const isNew = this.sessionId === 0n;
    this.sessionId = reply.sessionId;
    this.password = reply.password;
    this.grantedMs = reply.timeoutMs;
    // A new session is a write of the leader.
    if (isNew) this.countedFrom = sentAt;
    this.failures = 0;
    this.heard = [];
    this.opened = connection;
    this.authenticate(connection);
    if (isNew) this.keepAliveLater(connection);
    else this.keepAlive(connection, sentAt);
    this.cancelWaiting?.();
    this.cancelWaiting = undefined;
    this.listener.onConnected();
    for (const waiting of this.waiting.splice(0)) waiting.send(connection);
  }

  /** What is sent behind it is executed with its rights. */
  private authenticate(connection: Connection): void {
    const { credentials } = this.options;
    if (credentials === undefined) return;
    inBackground(connection.send(addAuth(credentials)), (error) => {
      if (error instanceof ZookeeperRefusal) connection.destroy(error);
    });
  }

  private onLost(connection: Connection, error: Error): void {
    if (this.connection !== connection) return;
    this.connection = undefined;
    const wasOpen = this.opened === connection;
    this.opened = undefined;
    this.cancelKeepAlive();
    if (this.isOver) return;
    this.lastError = error;
    if (wasOpen) this.listener.onDisconnected(error);
    const { clock } = this.options;
    if (clock.now() > this.countedFrom + this.grantedMs * RESUMED_WITHIN && this.sessionId !== 0n) {
      this.zxid = 0;
      return this.expire(
        new Error(
          `no server has resumed the session for ${RESUMED_WITHIN} times its length: ${error.message}`,
        ),
      );
    }
    if (error instanceof ZookeeperRefusal && error.code === CODE.authFailed) this.refuseWaiting(error);
    // The next server of several is tried at once.
    const isNext = this.failures % this.options.servers.length !== this.options.servers.length - 1;
    const delayMs = isNext ? Math.random() * 20 : reconnectDelay(this.failures / this.options.servers.length);
    this.failures += 1;
    this.cancelReconnect = clock.after(delayMs, () => this.connect());
  }

  private onRefused(error: unknown): never {
    if (!(error instanceof ZookeeperRefusal) || error.code !== CODE.sessionExpired) throw error;
    this.expire(error);
    throw new SessionEnded(error.message);
  }

  private expire(error: Error): void {
    if (this.isOver) return;
    const { connection } = this;
    this.end(error);
    connection?.destroy(error);
    this.listener.onEnd(error);
  }

  private end(error: Error): void {
    this.isOver = true;
    this.lastError = error;
    this.cancelReconnect();
    this.cancelKeepAlive();
    this.refuseWaiting(new SessionEnded(error.message));
  }

  // --- kept alive -----------------------------------------------------------------------------------------------

  private keepAliveLater(connection: Connection): void {
    const { clock } = this.options;
    this.cancelKeepAlive = clock.after(this.grantedMs / KEEP_ALIVES_PER_SESSION, () =>
      this.keepAlive(connection, -Infinity),
    );
  }

  /** @param toldAt when the leader itself was asked to prolong the session, on this connection */
  private keepAlive(connection: Connection, toldAt: number): void {
    this.keepAliveLater(connection);
    const sentAt = this.options.clock.now();
    // A connection that is lost has told so.
    inBackground(
      this.options.keepAlive(this).then(() => this.onKeptAlive(connection, { sentAt, toldAt })),
      () => undefined,
    );
  }

  private onKeptAlive(
    connection: Connection,
    { sentAt, toldAt }: { readonly sentAt: number; readonly toldAt: number },
  ): void {
    if (this.opened !== connection) return;
    const toldSince = sentAt - this.grantedMs * TOLD_AFTER;
    this.heard.push(sentAt);
    while ((this.heard[1] ?? Infinity) <= toldSince) this.heard.shift();
    const [oldest = Infinity] = this.heard;
    const heardAt = oldest <= toldSince ? oldest : -Infinity;
    this.countedFrom = Math.max(this.countedFrom, toldAt, heardAt);
  }

  // --- waiting for a connection ---------------------------------------------------------------------------------

  private armWaiting(ms: number): void {
    this.cancelWaiting = afterReading(this.options.clock, ms, (overAt) => {
      this.cancelWaiting = undefined;
      const { commandTimeoutMs, clock } = this.options;
      const isDue = ({ since }: Waiting) => since + commandTimeoutMs <= overAt;
      const due = this.waiting.filter(isDue);
      this.waiting = this.waiting.filter((each) => !isDue(each));
      const why = `no connection within ${commandTimeoutMs} ms (last error: ${this.lastError.message})`;
      for (const each of due) each.reject(new NotConnected(why));
      const [next] = this.waiting;
      if (next) this.armWaiting(Math.max(1, Math.ceil(next.since + commandTimeoutMs - clock.now())));
    });
  }

  private refuseWaiting(error: Error): void {
    this.cancelWaiting?.();
    this.cancelWaiting = undefined;
    for (const each of this.waiting.splice(0)) each.reject(error);
  }
}
