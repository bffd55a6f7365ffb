import type { Clock } from '../common/clock.js';
import { inBackground } from '../common/promises.js';
import { conceal } from '../common/redaction.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { Session } from '../session/backend.js';
import { ANY_VERSION, CODE, Operation, Request, ZookeeperRefusalError } from './client/protocol.js';
import { type SessionOptions, ZookeeperSession } from './client/session.js';
import { Documents, writeRepeatedly } from './documents.js';
import { type LockPaths, Znodes } from './znodes.js';

/**
 * A session must be at least this many round trips to its servers long. The client learns late from when the leader counts its
 * session (see `LeaderKnowledge`), which costs a holder half of the session and three round trips of its validity. With ten, two
 * round trips are left.
 */
const ROUND_TRIPS_PER_SESSION = 10;
/** If the session is too short, the client requests one that is longer than needed by this factor, because round trips vary. */
const HEADROOM = 1.2;
/** How many round trips the client measures before it gives the session up as too short. One may be slow by chance. */
const MAX_MEASURED = 3;

/**
 * One session of this client from its opening to its end. After the connection is open, it creates a presence, by which other
 * clients see that the session lives, and a mailbox for their messages.
 */
export class SessionLife implements Session {
  readonly connection: ZookeeperSession;
  readonly znodes: Znodes;
  readonly documents: Documents;
  isReady = false;
  /** Set if this session is too short for the round trips: the length that the next one must have. */
  needed: NeededLength | undefined;
  /** Set if the session before this one was too short: the length that this one requests. */
  private readonly requested: NeededLength | undefined;
  private readonly mailbox: Mailbox;
  private isOver = false;

  /** @param last the session before this one */
  constructor(
    private readonly options: SessionLifeOptions,
    private readonly listener: SessionLifeListener,
    last?: SessionLife,
  ) {
    conceal(this, 'options', 'connection', 'znodes', 'documents', 'mailbox');
    const { clock, paths, clientId, auth, sessionMs } = options;
    this.requested = last?.needed;
    this.connection = new ZookeeperSession(
      {
        ...options,
        timeoutMs: this.requested?.askedMs ?? sessionMs,
        lastZxid: last?.connection.lastZxid ?? 0,
        keepAlive: () => this.keepAlive(),
      },
      {
        onConnected: () => this.onConnected(),
        onDisconnected: (error) => listener.onDisconnected(error),
        onWatch: (path) => this.mailbox.onWatch(path),
        onEnd: (error) => this.onEnd(error),
      },
    );
    this.znodes = new Znodes({ session: this.connection, paths, acl: auth === undefined ? 'open' : 'own' });
    this.documents = new Documents(this.znodes);
    this.mailbox = new Mailbox({ clock, path: paths.mailboxOf(clientId), znodes: this.znodes, listener });
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

  /**
   * The warning for the application that a session of `watchdogTimeoutMs` is too short for the round trips to its servers;
   * `undefined` if it is not.
   */
  distanceWarning(address: string): string | undefined {
    if (!this.requested) return undefined;
    const { roundTripMs, askedMs } = this.requested;
    const { timeoutMs } = this.connection;
    const why = `A round trip to ZooKeeper (${address}) takes ${Math.round(roundTripMs)} ms, and a session must have ${ROUND_TRIPS_PER_SESSION} of them for a holder to know in time that it still has its lock.`;
    const what =
      timeoutMs >= askedMs
        ? `So the session is ${timeoutMs} ms long, and not watchdogTimeoutMs (${this.options.sessionMs}): a killed process keeps its locks for that long. Use nearer servers, or set watchdogTimeoutMs to ${askedMs}.`
        : `The servers grant sessions of ${timeoutMs} ms at most, so locks may be lost while their holders work. Use nearer servers, or raise maxSessionTimeout of the servers to ${askedMs} or more.`;
    return `${why} ${what}`;
  }

  private async keepAlive(): Promise<void> {
    const presence = Operation.setData(this.options.paths.presenceOf(this.id), '', ANY_VERSION);
    const { content } = await this.connection.send(Request.multi([presence]));
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
    const { clock, paths, clientId } = this.options;
    const { connection } = this;
    const create = { acl: this.znodes.acl, isEphemeral: true };
    const mailbox = paths.mailboxOf(clientId);
    const creation = Request.multi([
      Operation.create(paths.presenceOf(this.id), create),
      Operation.create(mailbox, create),
    ]);
    let sentAt = clock.now();
    const made = await writeRepeatedly(
      async () => {
        sentAt = clock.now();
        return (await connection.send(creation)).content;
      },
      async ({ code, index }) => {
        // The mailbox that exists was created by an earlier session of this client, which the servers have not ended yet. Replace
        // it, because it would be deleted with that session.
        if (code === CODE.nodeExists && index === 1)
          await connection.send(Request.multi([Operation.remove(mailbox, ANY_VERSION)]));
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
    this.needed = needed;
    if (needed) return this.listener.onUseless();
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
    const { connection, requested } = this;
    const { clock } = this.options;
    const sessionMs = Math.max(connection.timeoutMs, requested?.askedMs ?? 0);
    let shortestMs = roundTripMs;
    for (let measured = 1; shortestMs * ROUND_TRIPS_PER_SESSION > sessionMs; measured++) {
      const askedMs = Math.ceil(shortestMs * ROUND_TRIPS_PER_SESSION * HEADROOM);
      if (measured === MAX_MEASURED) return { roundTripMs: shortestMs, askedMs };
      const sentAt = clock.now();
      await connection.send(Request.sync('/'));
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

export interface SessionLifeOptions extends Omit<SessionOptions, 'timeoutMs' | 'lastZxid' | 'keepAlive'> {
  readonly clientId: string;
  readonly paths: LockPaths;
  /** The session length that the store needs, in ms: `watchdogTimeoutMs`. */
  readonly sessionMs: number;
}

interface SessionLifeListener {
  /** Called for each connection, as soon as the presence exists and requests can be sent. */
  onConnected(): void;
  onDisconnected(error: Error): void;
  /** @param order the zxid of the write that put the message into the mailbox */
  onMessage(text: string, order: number): void;
  /** Called when a message was overwritten before this client could read it. */
  onGap(): void;
  /**
   * Called when this session must be replaced: somebody deleted its presence, so that others take over its locks, or it is too
   * short for the round trips (`needed`).
   */
  onUseless(): void;
  onFailed(error: Error): void;
  onEnd(error: Error): void;
}

interface NeededLength {
  readonly roundTripMs: number;
  readonly askedMs: number;
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

  onWatch(path: string): void {
    if (path === this.options.path) this.readInBackground();
  }

  private readInBackground(): void {
    const reading = ++this.readings;
    inBackground(this.read(reading), (error) => this.onFailed(reading, error));
  }

  /** Reads again later if ZooKeeper refused the read. After a lost connection nothing is to be done: the next connection reads. */
  private onFailed(reading: number, error: unknown): void {
    if (!(error instanceof ZookeeperRefusalError)) return;
    const { clock, znodes } = this.options;
    clock.after(READ_AGAIN_MS, () => {
      if (reading === this.readings && znodes.session.isConnected) this.readInBackground();
    });
  }

  private async read(reading: number): Promise<void> {
    const { znodes, path, listener } = this.options;
    const node = await znodes.session.readIfExists(Request.getData(path, true));
    if (reading !== this.readings) return;
    if (!node) return this.makeAgain();
    const { version, mzxid } = node.stat;
    const before = this.version;
    this.version = version;
    if (version === before) return;
    listener.onMessage(node.data, mzxid);
    if (version !== before + 1) listener.onGap();
  }

  /** Creates the mailbox again, after somebody deleted it by hand. */
  private async makeAgain(): Promise<void> {
    const { znodes, path, listener } = this.options;
    const creation = Operation.create(path, { acl: znodes.acl, isEphemeral: true });
    const { content } = await znodes.session.send(Request.multi([creation]));
    if (!content.isDone && content.code !== CODE.nodeExists) throw new ZookeeperRefusalError(content.code);
    this.version = EMPTY;
    listener.onGap();
    this.readInBackground();
  }
}

interface MailboxOptions {
  readonly clock: Clock;
  readonly path: string;
  readonly znodes: Znodes;
  readonly listener: Pick<SessionLifeListener, 'onMessage' | 'onGap'>;
}
