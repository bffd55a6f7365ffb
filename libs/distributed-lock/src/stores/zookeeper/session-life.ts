import type { ConnectionOptions as TlsOptions } from 'node:tls';
import { inBackground } from '../../async-context/in-background.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import { conceal } from '../../redaction/conceal.js';
import type { Chance } from '../../time/chance.js';
import type { Clock } from '../../time/clock.js';
import type { Session } from '../session/session-backend.js';
import { CODE, ZookeeperRefusal } from './client/codes.js';
import type { Connect, Server } from './client/connection.js';
import { ANY_VERSION, create, multi, remove, setData, sync, type Acl } from './client/requests.js';
import { ZookeeperSession } from './client/session.js';
import { Documents } from './documents.js';
import type { LockPaths } from './lock-path.js';
import { Mailbox } from './mailbox.js';
import { repeated } from './writes.js';

/**
 * The least length of a session in round trips. A holder cannot count on half of the session and on three
 * round trips more (see `LeaderKnowledge`), so that two round trips are left for it.
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
    const made = await repeated(
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
    // This client made a presence that exists, before it lost a connection.
    if (!made.isDone && (made.code !== CODE.nodeExists || made.index === 1)) {
      throw new ZookeeperRefusal(made.code);
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
   * The length that the session needs for the way to its servers, if it is too short for the shortest of several round trips. It
   * compares with the length that this client has asked for, because servers that granted less would not grant more the next time.
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
  /** The session has to be replaced. Somebody deleted its presence, so that others take its locks, or it is too short for the round trips. */
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
