import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { Chance, Clock } from '../../common/clock.js';
import { ignoreFailure, inBackground } from '../../common/promises.js';
import { conceal } from '../../common/redaction.js';
import { textOf } from '../../connection/connection-errors.js';
import { type Attempt, KeptConnection } from '../../connection/kept-connection.js';
import { connectWithinMs } from '../../connection/timing.js';
import { leaseValidity } from '../../port/timing.js';
import { type Connect, Connection, type Reply, type Server, serverAddress } from './connection.js';
import { CODE, Request, ZookeeperError, ZookeeperRefusalError } from './protocol.js';

export interface SessionOptions {
  readonly clock: Clock;
  readonly chance: Chance;
  /** The servers of the ensemble. The session connects to them in this order. */
  readonly servers: readonly Server[];
  readonly resolve?: Resolve;
  readonly connect?: Connect;
  readonly tls: TlsOptions | undefined;
  /** `user:password` for ZooKeeper's scheme `digest`. */
  readonly auth: string | undefined;
  /** The session timeout to request, in ms. The servers may grant another one. */
  readonly timeoutMs: number;
  /** How long, in ms, the client waits for a reply before it gives up the connection. */
  readonly commandTimeoutMs: number;
  /**
   * The newest zxid that this client has seen in its earlier sessions, so that it does not connect to a server that is behind it.
   */
  readonly lastZxid: number;
  /** Sends some write. Its reply proves that the leader still had a majority, which a ping or a read does not. */
  readonly keepAlive: () => Promise<unknown>;
}

interface SessionListener {
  /** Called for each new connection as soon as requests can be sent. */
  onConnected(): void;
  /** Called when the connection was lost or could not be opened. The client then tries the next server. */
  onDisconnected(error: Error): void;
  /** The znode at this path has changed since it was read with a watch. */
  onWatch(path: string): void;
  /** Called last: the session is over, and its ephemeral znodes are deleted or soon will be. */
  onEnd(error: Error): void;
}

export const KEEP_ALIVES_PER_SESSION = 10;
/** If no server resumes the session within twice its length, the client takes it for expired, even if it reached no server. */
const RESUMED_WITHIN = 2;

/**
 * One session with an ensemble of servers. When its connection is lost, it connects to another server and goes on, if that
 * happens before the session expires.
 *
 * How long the session is valid: only the leader ends sessions. But any server answers a ping or a read, even one that is cut off
 * from the leader, and a leader without a majority goes on answering for some seconds. So such an answer does not prove that the
 * session lives on. Validity counts from a request of which the leader certainly knows (`LeaderKnowledge`).
 *
 * A request whose reply is missing when the connection is lost is rejected, and never sent again. Servers execute the requests of
 * one session in order, and ignore those that arrive on a connection that the session has left. So the request was executed
 * before everything that is sent later, or it never will be.
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
  /** Finds out, for the open connection, from when the leader counts the session. `undefined` without a connection. */
  private knowledge: LeaderKnowledge | undefined;
  /** A time on our clock. The leader counts the session's timeout from here or from later, so validity counts from here. */
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
      // After a failure each other server is tried once without a pause.
      quickAttempts: servers.length - 1,
      onOpen: (connection) => this.onOpen(connection),
      onDown: (error) => this.onDown(error as Error),
    });
    this.kept.start();
  }

  /** The id of the session as 16 hexadecimal digits. */
  get id(): string {
    return BigInt.asUintN(64, this.sessionId).toString(16).padStart(16, '0');
  }

  /** The session timeout that the servers granted, in ms. */
  get timeoutMs(): number {
    return this.grantedMs;
  }

  get lastZxid(): number {
    return this.zxid;
  }

  /** Until when, on our clock, the servers certainly keep the session. `-Infinity` if it is over. */
  get validUntil(): number {
    return this.isOver ? -Infinity : leaseValidity(this.countedFrom, this.grantedMs);
  }

  get isConnected(): boolean {
    return this.kept.current !== undefined;
  }

  /**
   * Sends a request on the open connection.
   *
   * @throws ZookeeperError `unreachable` if there is no connection, `unready` if the session is over; the request was not sent
   * @throws ConnectionLostError if the server may have executed it
   * @throws ZookeeperRefusalError if the server replied with an error code
   */
  send<Content>(request: Request<Content>): Promise<Reply<Content>> {
    const message = this.lastError ? textOf(this.lastError) : 'no server was tried yet';
    if (this.isOver) return Promise.reject(new ZookeeperError('unready', message));
    const { current } = this.kept;
    if (current) return current.send(request).catch((error: unknown) => this.onRefused(error));
    return Promise.reject(new ZookeeperError('unreachable', `no connection (last error: ${message})`));
  }

  /** Sends a read; `undefined` if the znode does not exist. */
  async readIfExists<Content>(request: Request<Content>): Promise<Content | undefined> {
    try {
      return (await this.send(request)).content;
    } catch (error) {
      if (error instanceof ZookeeperRefusalError && error.code === CODE.noNode) return undefined;
      throw error;
    }
  }

  /**
   * Closes the connection. Ends the session on the servers as well, unless `keepSession` is set: then its ephemeral znodes stay
   * until the session times out.
   */
  async close(keepSession: boolean): Promise<void> {
    if (this.isOver) return;
    this.end(new Error('the store is closed'));
    if (!keepSession) await this.kept.current?.send(Request.closeSession).catch(() => undefined);
    this.kept.close();
  }

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
          onWatch: (path) => this.listener.onWatch(path),
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
    // The leader creates the session after we sent the handshake, so it cannot count the timeout from an earlier moment.
    if (isNew) this.countedFrom = sentAt;
    this.knowledge = new LeaderKnowledge(reply.timeoutMs);
    this.authenticate(connection);
    if (!isNew) this.confirmResumed(connection, sentAt);
    this.listener.onConnected();
    this.keepAliveAlways(connection);
  }

  /**
   * Sends the credentials first on each connection. The server executes the later requests of this connection with their rights.
   */
  private authenticate(connection: Connection): void {
    const { auth } = this.options;
    if (auth === undefined) return;
    inBackground(connection.send(Request.authenticate(auth)), (error) => {
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
    throw new ZookeeperError('unready', error.message);
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

  private keepAliveAlways(connection: Connection): void {
    const { clock } = this.options;
    this.cancelKeepAlive = clock.after(this.grantedMs / KEEP_ALIVES_PER_SESSION, () => {
      this.keepAliveAlways(connection);
    });
    // Ignore a failure here: if the connection was lost, `onDown` is called.
    ignoreFailure(this.keepAlive(connection));
  }

  /**
   * Makes the session count from the moment at which a new connection resumed it. Whichever server was asked, the leader itself
   * resumes a session. A write after that proves that the leader still had a majority.
   */
  private confirmResumed(connection: Connection, resumedAt: number): void {
    ignoreFailure(this.options.keepAlive().then(() => this.countFrom(connection, resumedAt)));
  }

  private async keepAlive(connection: Connection): Promise<void> {
    const { knowledge } = this;
    const syncSentAt = await this.measured(connection.send(Request.sync('/')));
    if (this.kept.current !== connection || !knowledge) return;
    await this.measured(this.options.keepAlive());
    this.countFrom(connection, knowledge.countedFrom(syncSentAt));
  }

  /**
   * Waits for the reply, and records when the request was sent and answered. Call it in the moment of sending.
   *
   * @returns when the request was sent, by our clock
   */
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
 * The leader pings each follower at least once within this fraction of a session's length. It pings twice per tick, and a session
 * is at least two ticks long, which makes a quarter. An eighth of that is added for a late ping.
 */
const PINGED_WITHIN = (1 / 4) * (9 / 8);

/**
 * Finds the newest request of this client from which the leader certainly counts the session.
 *
 * A follower does not report a session to the leader when it gets a request. The leader pings the follower, and its answer to the
 * ping reports all sessions from which it has received requests. The ping and the answer may take any time. So the leader
 * certainly knows of a request R as soon as three steps have followed each other:
 *
 * 1. The reply to R has come, and `PINGED_WITHIN` has passed. By then the leader has sent a ping that reaches the follower after
 *    R.
 * 2. The client sent a `sync` after that, and got the reply. What the leader sends to one follower arrives in order, so the ping
 *    has arrived before the answer to the `sync`, and the follower has answered the ping.
 * 3. The client sent a write after that, and got the reply. What one follower sends to the leader arrives in order, too, so the
 *    leader has read the answer to the ping. The write proves that it was still the leader.
 *
 * If another leader is elected later, it counts the session from its election, which is later than the write.
 */
class LeaderKnowledge {
  /** Answered requests, in the order of the replies. */
  private readonly answered: Answered[] = [];

  constructor(private readonly sessionMs: number) {}

  onAnswered(request: Answered): void {
    this.answered.push(request);
  }

  /**
   * Call it after step 3: a `sync` was answered, and then a write that was sent after that reply.
   *
   * @param syncSentAt when the client sent the `sync`
   * @returns when the client sent the newest request that the leader certainly knows of; `-Infinity` if there is none
   */
  countedFrom(syncSentAt: number): number {
    const pingedSince = syncSentAt - this.sessionMs * PINGED_WITHIN;
    const { answered } = this;
    while ((answered[1]?.answeredAt ?? Infinity) <= pingedSince) answered.shift();
    const [newest] = answered;
    return newest && newest.answeredAt <= pingedSince ? newest.sentAt : -Infinity;
  }
}

/** When an answered request was sent and answered, by our clock. */
interface Answered {
  readonly sentAt: number;
  readonly answeredAt: number;
}

/**
 * Chooses the server for the next connection: each server in turn, and in each round another IP address of its host name, in case
 * one address does not answer.
 */
class ServerRotation {
  private attempts = 0;
  private firstAddress: number | undefined;

  /** @param resolve finds the IP addresses of a host name; default: `dns.lookup` */
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
    // Start at a random address, so that the clients spread over the addresses of a host name.
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
