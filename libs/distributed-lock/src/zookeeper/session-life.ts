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
 * The shortest session, in round trips to its servers. The client learns so late from when the leader counts the session (see
 * `LeaderKnowledge`) that a holder loses half of the session and three round trips of its validity. This leaves it two.
 */
export const ROUND_TRIPS_PER_SESSION = 10;
/** The client asks for a longer session with this factor, because round trips vary. */
const HEADROOM = 1.2;
/** How many round trips are measured before the session is given up as too short. A server may be slow for a moment. */
const MAX_MEASURED = 3;

/** A session of this client from its opening to its end: present for the others, with a mailbox. */
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

  /** Requests can be sent now. */
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

  /** @throws LockConfigurationError when the servers grant a session that is too short */
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
        // The mailbox is that of an earlier session of this client, which the servers have not ended yet.
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
   * The length to ask for, if the session is too short for the round trip to its servers, of which the shortest of several counts.
   * The length that this client has asked for before counts as well, because servers that granted less then would not grant more
   * the next time.
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
  /** The length that the locks need, in ms. */
  readonly sessionMs: number;
  readonly commandTimeoutMs: number;
}

interface SessionLifeListener {
  /** The session is present and has a connection, so that it can write. */
  onConnected(): void;
  onDisconnected(error: Error): void;
  onMessage(text: string, order: number): void;
  onGap(): void;
  /**
   * The session has to be replaced: somebody deleted its presence, so that others take its locks, or it is too short for the round
   * trips.
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
  /** The length that an earlier session was too short for. */
  readonly needed: NeededLength | undefined;
}

/** The version of a mailbox that was just made. */
const EMPTY = 0;
/** A refused reading has set no watch, so the mailbox is read again after this time. */
export const READ_AGAIN_MS = 200;

/**
 * The mailbox of one client: a znode into which other clients write their messages. A watch fires only once, so each reading sets a
 * new one. Each message overwrites the one before. The version tells whether one was missed.
 */
export class Mailbox {
  private version = EMPTY;
  /** Counts the readings. Only the reply to the latest one is used. */
  private readings = 0;

  constructor(private readonly options: MailboxOptions) {}

  /** Called for each new connection, because watches end with the connection on which they were set. */
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

  /** Reads again after a refusal. The version then tells whether messages were missed. The next connection reads, too. */
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

  /** Makes the mailbox again after somebody has deleted it by hand. */
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
  /** @param order the transaction that sent it */
  onMessage(text: string, order: number): void;
  /** Messages were overwritten by later ones. */
  onGap(): void;
}
