import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { Chance, Clock } from '../../common/clock.js';
import { inBackground } from '../../common/promises.js';
import { conceal } from '../../common/redaction.js';
import { textOf } from '../../connection/connection-errors.js';
import { type Attempt, KeptConnection } from '../../connection/kept-connection.js';
import { connectWithinMs } from '../../connection/timing.js';
import { leaseValidity } from '../../port/timing.js';
import { type Connect, Connection, type Reply, type Server, serverAddress } from './connection.js';
import {
  addAuth,
  closeSession,
  CODE,
  type Request,
  sessionIdText,
  sync,
  type WatchEvent,
  ZookeeperRefusalError,
} from './requests.js';

interface SessionOptions {
  readonly clock: Clock;
  readonly chance: Chance;
  /** As in `ServerRotation`. */
  readonly servers: readonly Server[];
  readonly resolve?: Resolve;
  readonly connect?: Connect | undefined;
  readonly tls: TlsOptions | undefined;
  /** `user:password` */
  readonly credentials: string | undefined;
  /** The length of the session to ask for, in ms. */
  readonly timeoutMs: number;
  /** How long, in ms, a server may take to answer. */
  readonly commandTimeoutMs: number;
  /** The newest transaction that this client has seen in its sessions before. */
  readonly lastZxid: number;
  /** Sends a write, whatever it writes: its reply shows that the leader had a majority behind it. */
  readonly keepAlive: (session: ZookeeperSession) => Promise<unknown>;
}

interface SessionListener {
  /** Each time that requests can be sent. */
  onConnected(): void;
  /** A connection was lost, or could not be opened. The next attempt follows. */
  onDisconnected(error: Error): void;
  onEvent(event: WatchEvent): void;
  /** The session is over, and its ephemeral znodes are gone or soon will be. Nothing follows. */
  onEnd(error: Error): void;
}

/** There is no connection now. The request was not sent. */
export class NotConnectedError extends Error {}

/** The session is over, so the request was not executed. */
export class SessionEndedError extends Error {}

export const KEEP_ALIVES_PER_SESSION = 10;
/** A session that could not be resumed for this many times its length is over, whatever happened to the servers. */
const RESUMED_WITHIN = 2;

/**
 * One session with an ensemble of servers, on one connection after the other. It lives on while it moves to another server within
 * its time.
 *
 * The leader ends sessions. But any server answers a ping or a reading, even one that is cut off from the leader, and a leader that
 * has lost its majority answers for some seconds more. So validity counts neither from such an answer nor from the last write. It
 * counts from a request of which the leader certainly knows (`LeaderKnowledge`).
 *
 * A request that has no reply when its connection is lost is rejected, and never sent again. The servers execute the requests of
 * one session in order, and none that arrives on a connection which the session has left. So such a request was executed before
 * everything that is sent later, or it never will be.
 */
export class ZookeeperSession {
  private readonly kept: KeptConnection<Connection>;
  private sessionId = 0n;
  private password: Buffer = Buffer.alloc(16);
  private grantedMs = 0;
  private zxid: number;
  private isOver = false;
  private readonly rotation: ServerRotation;
  private cancelKeepAlive = (): void => undefined;
  /** The requests on the connection that is open. `undefined` without a connection. */
  private knowledge: LeaderKnowledge | undefined;
  /** The leader counts the length of the session from this moment on our clock, or from a later one. */
  private countedFrom = -Infinity;
  private lastError: Error | undefined;

  constructor(
    private readonly options: SessionOptions,
    private readonly listener: SessionListener,
  ) {
    conceal(this, 'options', 'kept', 'password');
    this.zxid = options.lastZxid;
    const { clock, chance, servers, commandTimeoutMs, resolve } = options;
    this.rotation = new ServerRotation(servers, chance, resolve);
    this.kept = new KeptConnection({
      clock,
      chance,
      commandTimeoutMs,
      attempt: () => this.attempt(),
      // The next server is tried at once.
      quickAttempts: servers.length - 1,
      onOpen: (connection) => this.onOpen(connection),
      onDown: (error) => this.onDown(error as Error),
    });
    this.kept.start();
  }

  /** In hexadecimal digits. */
  get id(): string {
    return sessionIdText(this.sessionId);
  }

  /** The length that the servers have granted, in ms. */
  get timeoutMs(): number {
    return this.grantedMs;
  }

  get lastZxid(): number {
    return this.zxid;
  }

  /** Until when, on our clock, the servers keep the session for certain. */
  get validUntil(): number {
    return this.isOver ? -Infinity : leaseValidity(this.countedFrom, this.grantedMs);
  }

  get isConnected(): boolean {
    return this.kept.current !== undefined;
  }

  /**
   * @throws NotConnectedError or SessionEndedError if the request was not sent, ConnectionLostError if it may have been executed,
   * ZookeeperRefusalError
   */
  send<Content>(request: Request<Content>): Promise<Reply<Content>> {
    const message = this.lastError ? textOf(this.lastError) : 'no server was tried yet';
    if (this.isOver) return Promise.reject(new SessionEndedError(message));
    const { current } = this.kept;
    if (!current) return Promise.reject(new NotConnectedError(`no connection (last error: ${message})`));
    return current.send(request).catch((error: unknown) => this.onRefused(error));
  }

  /** Ends the session on the servers, too, unless its ephemeral znodes are to stay for the rest of its time. */
  async close(keepSession: boolean): Promise<void> {
    if (this.isOver) return;
    this.end(new Error('the store is closed'));
    if (!keepSession) await this.kept.current?.send(closeSession).catch(() => undefined);
    this.kept.close();
  }

  // --- connected, lost ------------------------------------------------------------------------------------------

  private attempt(): Attempt<Connection> {
    const withinMs = connectWithinMs(this.options.commandTimeoutMs);
    const lateError = new Error('no address of a server was found in time');
    return {
      withinMs,
      lateError,
      open: async (signal, onLost) => {
        const server = await this.rotation.next();
        signal.throwIfAborted();
        lateError.message = `${serverAddress(server)} answered no handshake within ${withinMs} ms; is it ZooKeeper?`;
        return this.connectTo(server, signal, onLost);
      },
    };
  }

  private connectTo(
    server: Server,
    signal: AbortSignal,
    onLost: (error: Error) => void,
  ): Promise<Connection> {
    const { clock, connect, tls, timeoutMs, commandTimeoutMs: silentMs } = this.options;
    const { sessionId, password, zxid: lastZxid } = this;
    const handshake = { sessionId, password, timeoutMs, lastZxid };
    return new Promise((resolve, reject) => {
      const connection: Connection = new Connection(
        { clock, server, connect, tls, handshake, silentMs },
        {
          onOpen: () => resolve(connection),
          onEvent: (event) => this.listener.onEvent(event),
          onZxid: (zxid) => (this.zxid = Math.max(this.zxid, zxid)),
          onLost: (error) => {
            reject(error);
            onLost(error);
          },
        },
      );
      signal.addEventListener('abort', () => connection.destroy());
    });
  }

  private onOpen(connection: Connection): void {
    const { handshake, lostBy } = connection;
    if (!handshake || lostBy) return this.kept.lose(connection, lostBy);
    const { reply, sentAt } = handshake;
    if (reply.timeoutMs <= 0) {
      return this.expire(new Error('the servers have ended the session, as nothing was heard of it in time'));
    }
    const isNew = this.sessionId === 0n;
    this.sessionId = reply.sessionId;
    this.password = reply.password;
    this.grantedMs = reply.timeoutMs;
    // The leader has written the new session after it got the handshake, so it counts the session from then at the earliest.
    if (isNew) this.countedFrom = sentAt;
    this.knowledge = new LeaderKnowledge(reply.timeoutMs);
    this.authenticate(connection);
    if (!isNew) this.confirmResumed(connection, sentAt);
    this.listener.onConnected();
    this.keepAliveAlways(connection);
  }

  /** Sends the credentials. The server executes later requests of this connection with their rights. */
  private authenticate(connection: Connection): void {
    const { credentials } = this.options;
    if (credentials === undefined) return;
    inBackground(connection.send(addAuth(credentials)), (error) => {
      if (error instanceof ZookeeperRefusalError) connection.destroy(error);
    });
  }

  private onDown(error: Error): void {
    this.cancelKeepAlive();
    if (this.isOver) return;
    this.lastError = error;
    this.listener.onDisconnected(error);
    this.knowledge = undefined;
    const { clock } = this.options;
    const isTooLate = clock.now() > this.countedFrom + this.grantedMs * RESUMED_WITHIN;
    if (this.sessionId === 0n || !isTooLate) return;
    this.zxid = 0;
    const why = `no server has resumed the session for ${RESUMED_WITHIN} times its length: ${error.message}`;
    this.expire(new Error(why));
  }

  private onRefused(error: unknown): never {
    if (!(error instanceof ZookeeperRefusalError) || error.code !== CODE.sessionExpired) throw error;
    this.expire(error);
    throw new SessionEndedError(error.message);
  }

  private expire(error: Error): void {
    if (this.isOver) return;
    this.end(error);
    this.kept.current?.destroy(error);
    this.kept.close();
    this.listener.onEnd(error);
  }

  private end(error: Error): void {
    this.isOver = true;
    this.lastError = error;
    this.cancelKeepAlive();
  }

  // --- kept alive -----------------------------------------------------------------------------------------------

  private keepAliveAlways(connection: Connection): void {
    const { clock } = this.options;
    this.cancelKeepAlive = clock.after(this.grantedMs / KEEP_ALIVES_PER_SESSION, () => {
      this.keepAliveAlways(connection);
    });
    // A connection that is lost calls `onDown`.
    inBackground(this.keepAlive(connection), () => undefined);
  }

  /**
   * The leader itself has resumed the session, whichever server was asked. After that a write shows that it had a majority then, so
   * the session counts from the resumption.
   */
  private confirmResumed(connection: Connection, resumedAt: number): void {
    inBackground(
      this.options.keepAlive(this).then(() => this.countFrom(connection, resumedAt)),
      () => undefined,
    );
  }

  private async keepAlive(connection: Connection): Promise<void> {
    const { knowledge } = this;
    const syncSentAt = await this.measured(connection.send(sync('/')));
    if (this.kept.current !== connection || !knowledge) return;
    await this.measured(this.options.keepAlive(this));
    this.countFrom(connection, knowledge.countedFrom(syncSentAt));
  }

  /** @returns when the request was sent */
  private async measured(reply: Promise<unknown>): Promise<number> {
    const { clock } = this.options;
    const { knowledge } = this;
    const sentAt = clock.now();
    await reply;
    knowledge?.onAnswered({ sentAt, answeredAt: clock.now() });
    return sentAt;
  }

  private countFrom(connection: Connection, at: number): void {
    if (this.kept.current === connection) this.countedFrom = Math.max(this.countedFrom, at);
  }
}

/**
 * Within this part of a session's length the leader sends a ping to each follower: it sends two in each tick, and a session has two
 * ticks at least. An eighth is added for a ping that is late.
 */
const PINGED_WITHIN = (1 / 4) * (9 / 8);

/**
 * Knows the newest request of this client from which the leader certainly counts the session.
 *
 * A follower does not report a session when it gets a request of it. It reports the sessions of which it got requests in its answer
 * to the leader's next ping. The ping and the answer may take any time. So a request `heard` is certain to be reported as soon as
 * three steps have followed each other:
 *
 * 1. The reply to `heard` has come, and `PINGED_WITHIN` has passed. By then the leader has sent a ping that the follower
 *    gets after `heard`.
 * 2. A `sync` was sent after that, and answered. What the leader sends to one follower arrives in order, so the ping has
 *    arrived before the answer to the `sync`, and the follower has answered the ping.
 * 3. A write was sent after that, and answered. What one follower sends to the leader arrives in order, too, so the leader
 *    has read the answer to the ping. The write shows that it was still the leader.
 *
 * Any later leader counts the session from its own election, which is later than the write.
 */
class LeaderKnowledge {
  /** Requests in the order of their answers. */
  private readonly answered: Answered[] = [];

  constructor(private readonly sessionMs: number) {}

  onAnswered(request: Answered): void {
    this.answered.push(request);
  }

  /**
   * Call it when a `sync` was answered, and then a write that was sent after that.
   *
   * @param syncSentAt when the `sync` was sent
   * @returns when the newest request that was reported for certain was sent; `-Infinity` without one
   */
  countedFrom(syncSentAt: number): number {
    const pingedSince = syncSentAt - this.sessionMs * PINGED_WITHIN;
    const { answered } = this;
    while ((answered[1]?.answeredAt ?? Infinity) <= pingedSince) answered.shift();
    const [newest] = answered;
    return newest && newest.answeredAt <= pingedSince ? newest.sentAt : -Infinity;
  }
}

/** A request of this client that was answered, on our clock. */
interface Answered {
  readonly sentAt: number;
  readonly answeredAt: number;
}

/** The servers in turn, each time at another of its addresses, because one of them may not answer. */
class ServerRotation {
  private attempts = 0;
  private firstAddress: number | undefined;

  /** @param resolve finds all addresses of a host; default: as the machine resolves names */
  constructor(
    private readonly servers: readonly Server[],
    private readonly chance: Chance,
    private readonly resolve: Resolve = addressesOf,
  ) {}

  async next(): Promise<Server> {
    const { servers } = this;
    const attempt = this.attempts++;
    const server = servers[attempt % servers.length] as Server;
    if (isIP(server.host) > 0) return server;
    const addresses = await this.resolve(server.host).catch(() => []);
    // The first address is random, so that clients spread over all addresses of a host name.
    this.firstAddress ??= Math.floor(this.chance.random() * addresses.length);
    const round = Math.floor(attempt / servers.length);
    const address = addresses[(this.firstAddress + round) % addresses.length];
    return address === undefined ? server : { ...server, address };
  }
}

type Resolve = (host: string) => Promise<readonly string[]>;

async function addressesOf(host: string): Promise<readonly string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}
