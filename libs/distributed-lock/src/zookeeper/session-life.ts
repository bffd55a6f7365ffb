import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { Chance, Clock } from '../common/clock.js';
import { inBackground } from '../common/promises.js';
import { conceal } from '../common/redaction.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { Session } from '../session/backend.js';
import type { Connect, Server } from './client/connection.js';
import {
  type Acl,
  ANY_VERSION,
  CODE,
  create,
  getData,
  multi,
  remove,
  setData,
  sync,
  type WatchEvent,
  ZookeeperRefusalError,
} from './client/requests.js';
import { ZookeeperSession } from './client/session.js';
import { Documents, writeRepeatedly } from './documents.js';
import { isCode } from './failures.js';
import type { LockPaths } from './lock-path.js';

/**
 * A session must be at least this many round trips to its servers long. The client learns late from when the leader counts its
 * session (see `LeaderKnowledge`), which costs a holder half of the session and three round trips of its validity. With ten, two
 * round trips are left.
 */
export const ROUND_TRIPS_PER_SESSION = 10;
/** If the session is too short, the client requests one that is longer than needed by this factor, because round trips vary. */
const HEADROOM = 1.2;
/** How many round trips the client measures before it gives the session up as too short. One may be slow by chance. */
const MAX_MEASURED = 3;

/**
 * One session of this client from its opening to its end. After the connection is open, it creates a presence, by which other
 * clients see that the session lives, and a mailbox for their messages.
 */
export class SessionLife implements Session {
  readonly documents: Documents;
  readonly connection: ZookeeperSession;
  isReady = false;
  private readonly acl: Acl;
  private readonly mailbox: Mailbox;
  private isOver = false;

  constructor(
    private readonly options: SessionLifeOptions,
    private readonly listener: SessionLifeListener,
    private readonly start: SessionLifeStart,
  ) {
    conceal(this, 'options', 'connection', 'documents', 'mailbox');
    const { clock, chance, paths, clientId, servers, connect, tls, auth } = options;
    const { sessionMs, commandTimeoutMs } = options;
    const { lastZxid, needed } = start;
    this.acl = auth === undefined ? 'open' : 'own';
    this.connection = new ZookeeperSession(
      {
        clock,
        chance,
        servers,
        connect,
        tls,
        credentials: auth,
        timeoutMs: needed?.askedMs ?? sessionMs,
        commandTimeoutMs,
        lastZxid,
        keepAlive: (session) => this.keepAlive(session),
      },
      {
        onConnected: () => this.onConnected(),
        onDisconnected: (error) => listener.onDisconnected(error),
        onEvent: (event) => this.mailbox.onEvent(event),
        onEnd: (error) => this.onEnd(error),
      },
    );
    const { acl, connection: session } = this;
    this.documents = new Documents({ session, paths, acl });
    this.mailbox = new Mailbox({
      clock,
      session,
      acl,
      path: paths.mailboxOf(clientId),
      onMessage: (text, order) => listener.onMessage(text, order),
      onGap: () => listener.onGap(),
    });
  }

  get id(): string {
    return this.connection.id;
  }

  get validUntil(): number {
    return this.isOver ? -Infinity : this.connection.validUntil;
  }

  /** True if the presence exists and there is a connection. */
  get canWrite(): boolean {
    return this.isReady && this.connection.isConnected;
  }

  close(keepSession: boolean): Promise<void> {
    this.isOver = true;
    return this.connection.close(keepSession);
  }

  private async keepAlive(session: ZookeeperSession): Promise<void> {
    const presence = this.options.paths.presenceOf(session.id);
    const { content } = await session.send(multi([setData(presence, '', ANY_VERSION)]));
    if (!content.isDone && content.code === CODE.noNode && this.isReady) this.listener.onUseless();
  }

  private onConnected(): void {
    if (this.isReady) return this.onReady();
    inBackground(this.present(), (error) => this.listener.onFailed(error as Error));
  }

  private onEnd(error: Error): void {
    if (this.isOver) return;
    this.isOver = true;
    this.listener.onEnd(error);
  }

  /**
   * Creates the presence and the mailbox, and checks that the session is long enough.
   *
   * @throws LockConfigurationError when the servers grant a shorter session than the store needs
   */
  private async present(): Promise<void> {
    this.checkLength();
    const { paths, clientId } = this.options;
    const { acl, connection } = this;
    const presence = create(paths.presenceOf(this.id), { acl, isEphemeral: true });
    const mailbox = paths.mailboxOf(clientId);
    const { clock } = this.options;
    let sentAt = clock.now();
    const made = await writeRepeatedly(
      async () => {
        sentAt = clock.now();
        const { content } = await connection.send(
          multi([presence, create(mailbox, { acl, isEphemeral: true })]),
        );
        return content;
      },
      async ({ code, index }) => {
        // The mailbox that exists was created by an earlier session of this client, which the servers have not ended yet. Replace
        // it, because it would be deleted with that session.
        if (code === CODE.nodeExists && index === 1)
          await connection.send(multi([remove(mailbox, ANY_VERSION)]));
        else if (code === CODE.noNode) await this.documents.makeParents();
        else return false;
        return true;
      },
      2,
    );
    // `nodeExists` is fine for the presence: this client created it on an earlier connection and lost the reply.
    if (!made.isDone && (made.code !== CODE.nodeExists || made.index === 1)) {
      throw new ZookeeperRefusalError(made.code);
    }
    const needed = await this.neededLength(clock.now() - sentAt);
    if (this.isOver || this.isReady) return;
    if (needed) return this.listener.onUseless(needed);
    this.isReady = true;
    this.onReady();
  }

  private onReady(): void {
    this.mailbox.onConnected();
    this.listener.onConnected();
  }

  /**
   * Returns the session length to request instead, if this session is too short for the round trip to its servers. Measures
   * several round trips, of which the shortest counts. Returns `undefined` as well if this client has already requested enough:
   * then the servers would not grant more the next time.
   */
  private async neededLength(roundTripMs: number): Promise<NeededLength | undefined> {
    const { connection, start } = this;
    const { clock } = this.options;
    const sessionMs = Math.max(connection.timeoutMs, start.needed?.askedMs ?? 0);
    let shortestMs = roundTripMs;
    for (let measured = 1; shortestMs * ROUND_TRIPS_PER_SESSION > sessionMs; measured++) {
      const askedMs = Math.ceil(shortestMs * ROUND_TRIPS_PER_SESSION * HEADROOM);
      if (measured === MAX_MEASURED) return { roundTripMs: shortestMs, askedMs };
      const sentAt = clock.now();
      await connection.send(sync('/'));
      shortestMs = Math.min(shortestMs, clock.now() - sentAt);
    }
    return undefined;
  }

  private checkLength(): void {
    const { sessionMs } = this.options;
    const { timeoutMs } = this.connection;
    if (timeoutMs >= sessionMs) return;
    throw new LockConfigurationError(
      `watchdogTimeoutMs is ${sessionMs}, and the ZooKeeper servers grant sessions of at most ${timeoutMs} ms, which is how long they keep a lock. Lower watchdogTimeoutMs to ${timeoutMs}, or raise maxSessionTimeout of the servers (20 times their tickTime by default).`,
    );
  }
}

export interface SessionLifeOptions {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly clientId: string;
  readonly paths: LockPaths;
  readonly servers: readonly Server[];
  readonly connect?: Connect;
  readonly tls: TlsOptions | undefined;
  readonly auth: string | undefined;
  /** The session length that the store needs, in ms: `watchdogTimeoutMs`. */
  readonly sessionMs: number;
  readonly commandTimeoutMs: number;
}

interface SessionLifeListener {
  /** Called for each connection, as soon as the presence exists and requests can be sent. */
  onConnected(): void;
  onDisconnected(error: Error): void;
  onMessage(text: string, order: number): void;
  onGap(): void;
  /**
   * Called when this session must be replaced: somebody deleted its presence, so that others take over its locks, or it is too
   * short for the round trips (then with the length to request).
   */
  onUseless(needed?: NeededLength): void;
  onFailed(error: Error): void;
  onEnd(error: Error): void;
}

export interface NeededLength {
  readonly roundTripMs: number;
  readonly askedMs: number;
}

export interface SessionLifeStart {
  readonly lastZxid: number;
  /** Set if the session before this one was too short: the length to request now. */
  readonly needed: NeededLength | undefined;
}

/** The version of a mailbox that was just created and has no message yet. */
const EMPTY = 0;
/** If a read of the mailbox is refused, ZooKeeper sets no watch, so the client reads again after this time. */
export const READ_AGAIN_MS = 200;

/**
 * The mailbox of this client: a znode into which other clients write their messages. A watch of ZooKeeper fires only once, so
 * each read sets a new one. A message overwrites the one before. If the version has grown by more than one since the last read,
 * one was missed.
 */
export class Mailbox {
  private version = EMPTY;
  /** The number of the latest read. Replies to earlier reads are ignored. */
  private readings = 0;

  constructor(private readonly options: MailboxOptions) {}

  /** Called for each new connection. Reads the mailbox, because the watch has ended with the old connection. */
  onConnected(): void {
    this.readInBackground();
  }

  onEvent({ path }: WatchEvent): void {
    if (path === this.options.path) this.readInBackground();
  }

  private readInBackground(): void {
    const reading = ++this.readings;
    inBackground(this.read(reading), (error) => this.onFailed(reading, error));
  }

  /** Reads again later if ZooKeeper refused the read. After a lost connection nothing is to be done: the next connection reads. */
  private onFailed(reading: number, error: unknown): void {
    if (!(error instanceof ZookeeperRefusalError)) return;
    const { clock, session } = this.options;
    clock.after(READ_AGAIN_MS, () => {
      if (reading === this.readings && session.isConnected) this.readInBackground();
    });
  }

  private async read(reading: number): Promise<void> {
    const { session, path } = this.options;
    try {
      const { content } = await session.send(getData(path, true));
      if (reading !== this.readings) return;
      const { version, mzxid } = content.stat;
      const before = this.version;
      this.version = version;
      if (version === before) return;
      this.options.onMessage(content.data, mzxid);
      if (version !== before + 1) this.options.onGap();
    } catch (error) {
      if (!isCode(error, CODE.noNode) || reading !== this.readings) throw error;
      await this.makeAgain();
      this.readInBackground();
    }
  }

  /** Creates the mailbox again, after somebody deleted it by hand. */
  private async makeAgain(): Promise<void> {
    const { session, path, acl } = this.options;
    const { content } = await session.send(multi([create(path, { acl, isEphemeral: true })]));
    if (!content.isDone && content.code !== CODE.nodeExists) throw new ZookeeperRefusalError(content.code);
    this.version = EMPTY;
    this.options.onGap();
  }
}

interface MailboxOptions {
  readonly clock: Clock;
  readonly session: ZookeeperSession;
  readonly path: string;
  readonly acl: Acl;
  /** @param order the zxid of the write that put the message into the mailbox */
  onMessage(text: string, order: number): void;
  /** Called when a message was overwritten before this client could read it. */
  onGap(): void;
}
