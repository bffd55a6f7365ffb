import { inBackground } from '../../async-context/in-background.js';
import type { StoreState } from '../../port/lock-store.js';
import { LockConfigurationError, type LockStoreError } from '../../port/lock.errors.js';
import { conceal } from '../../redaction/conceal.js';
import { afterReading } from '../../time/after-reading.js';
import type { Chance } from '../../time/chance.js';
import type { Clock } from '../../time/clock.js';
import { Outage } from '../common/outage.js';
import { reconnectDelay } from '../common/reconnect-delay.js';
import { storeError } from '../common/store-error.js';
import { blockedPause } from './blocked-pause.js';
import type { Failure } from './sql-failure.js';
import {
  WaitingSqlRequests,
  type Execute,
  type Item,
  type Reply,
  type SqlRequest,
  type SqlRequestKind,
} from './sql-requests.js';

/** A connection to the database on which statements can be sent. */
export interface SqlLink {
  /** Sends one statement. Rejects with the error of the client. */
  readonly execute: Execute;
  /** The server's time in ms as it told it when the session was opened, and our time when it was asked. */
  readonly opened: { readonly now: number; readonly sentAt: number };
  /** Ends at once, whatever the server does. */
  destroy(): void;
}

export interface SqlDatabase {
  /** Its name for messages: `PostgreSQL`. */
  readonly server: string;
  /** @param signal the connection is not wanted any more @param onLost called when the session can send no more */
  open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<SqlLink>;
  failureOf(error: unknown): Failure;
}

interface ConnectionOptions {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly commandTimeoutMs: number;
  readonly onState?: ((state: StoreState) => void) | undefined;
  /** Each new session has told the server's time, before anything else is sent on it. */
  onTime(now: number, sentAt: number): void;
}

/**
 * The store's connection for statements. One statement is in flight at a time, and the requests that come meanwhile go
 * together in the next one.
 *
 * A connection that has not replied for `commandTimeoutMs` may be stuck. It is replaced, and the requests in flight fail with
 * it. A deadline counts from the last reply, so that a request fails only when the database has stopped replying.
 */
export class SqlConnection {
  /** The first attempt to connect has ended. */
  readonly attempted: Promise<void>;
  private onAttempted = (): void => undefined;
  private readonly waiting = new WaitingSqlRequests();
  private readonly outage: Outage;
  private session: SqlLink | undefined;
  private inFlight: readonly SqlRequest[] = [];
  private repliedAt = -Infinity;
  private failures = 0;
  private isClosed = false;
  private isSending = false;
  private lastFailure: Failure | undefined;
  private lastError: unknown;
  private cancelDeadline: (() => void) | undefined;
  private cancelReconnect = (): void => undefined;
  private cancelPause = (): void => undefined;
  private opening: AbortController | undefined;

  constructor(
    private readonly database: SqlDatabase,
    private readonly options: ConnectionOptions,
  ) {
    conceal(this, 'database', 'session');
    this.attempted = new Promise((resolve) => (this.onAttempted = resolve));
    this.outage = new Outage(options, () =>
      this.noConnection(`no connection for ${options.commandTimeoutMs} ms`, undefined),
    );
    this.outage.onDown();
    this.connect();
  }

  /** @throws LockStoreError: `unreachable` if it was never sent, otherwise by the reply or `unknown` */
  run<Kind extends SqlRequestKind>(kind: Kind, item: Item<Kind>, key?: string): Promise<Reply<Kind>> {
    return new Promise((resolve, reject) => {
      if (this.isClosed) return reject(this.isClosedError(key));
      const request: SqlRequest<Kind> = { kind, item, key, since: this.options.clock.now(), resolve, reject };
      this.waiting.push(request as unknown as SqlRequest);
      this.sendSoon();
      if (!this.cancelDeadline) this.armDeadline(this.options.commandTimeoutMs);
    });
  }

  /** Rejects the requests in flight. Leaves no socket and no timer, whatever the server does. */
  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.outage.end();
    this.cancelReconnect();
    this.cancelPause();
    this.cancelDeadline?.();
    this.opening?.abort();
    this.replaceSession(undefined);
    this.onAttempted();
    this.failInFlight({ reason: 'unknown', detail: 'the store is closed' });
    for (const request of this.waiting.takeDue(() => true)) request.reject(this.isClosedError(request.key));
  }

  // --- connected, lost ------------------------------------------------------------------------------------------

  private connect(): void {
    const { clock, commandTimeoutMs } = this.options;
    const opening = (this.opening = new AbortController());
    const ms = Math.max(commandTimeoutMs, 100) * 2;
    const cancel = afterReading(clock, ms, () =>
      opening.abort(new Error(`the server did not take a connection within ${ms} ms`)),
    );
    const onLost = (error: unknown) => this.onLost(error, opening.signal);
    // A query function of the application may never settle.
    opening.signal.addEventListener('abort', () => this.onNotOpen(opening.signal.reason, opening.signal));
    inBackground(
      this.database
        .open(opening.signal, onLost)
        .finally(cancel)
        .then((session) => this.onOpen(session, opening.signal)),
      (error) => this.onNotOpen(error, opening.signal),
    );
  }

  private onOpen(session: SqlLink, signal: AbortSignal): void {
    if (this.isClosed || signal.aborted) {
      session.destroy();
      if (!this.isClosed) this.onNotOpen(new Error('it took too long to connect'), signal);
      return;
    }
    this.session = session;
    this.onAttempted();
    this.failures = 0;
    this.lastFailure = this.lastError = undefined;
    this.repliedAt = this.options.clock.now();
    this.options.onTime(session.opened.now, session.opened.sentAt);
    this.outage.onUp();
    this.sendNext();
  }

  private onNotOpen(error: unknown, signal: AbortSignal): void {
    if (this.opening?.signal !== signal) return;
    this.onAttempted();
    this.onError(error);
    this.reconnect();
  }

  private onLost(error: unknown, signal: AbortSignal): void {
    if (this.opening?.signal !== signal || !this.session) return;
    this.onError(error);
    this.replaceSession(undefined);
    this.failInFlight({ ...this.database.failureOf(error), reason: 'unknown' }, error);
    this.reconnect();
  }

  private onError(error: unknown): void {
    this.lastError = error;
    this.lastFailure = this.database.failureOf(error);
  }

  private reconnect(): void {
    if (this.isClosed) return;
    this.outage.onDown();
    this.cancelReconnect();
    const { clock, chance } = this.options;
    this.cancelReconnect = clock.after(reconnectDelay(chance, this.failures++), () => this.connect());
    this.refuseWaiting();
  }

  /** A database that refuses this client will refuse it again: its callers need not wait for their deadlines. */
  private refuseWaiting(): void {
    const { lastFailure: failure } = this;
    if (failure?.reason !== 'refused') return;
    for (const request of this.waiting.takeDue(() => true))
      request.reject(this.errorFor(request, failure, this.lastError));
  }

  private replaceSession(next: SqlLink | undefined): void {
    const { session } = this;
    this.session = next;
    session?.destroy();
  }

  // --- sent, replied --------------------------------------------------------------------------------------------

  /** The requests that come in one turn go together. */
  private sendSoon(): void {
    if (this.isSending) return;
    this.isSending = true;
    queueMicrotask(() => {
      this.isSending = false;
      this.sendNext();
    });
  }

  private sendNext(): void {
    if (!this.session || this.inFlight.length > 0 || this.waiting.size === 0) return;
    const { clock } = this.options;
    const requests = this.waiting.takeNext(clock.now());
    if (requests.length === 0) {
      this.cancelPause();
      this.cancelPause = clock.after(Math.max(0, this.waiting.nextAt - clock.now()), () => this.sendNext());
      return;
    }
    this.inFlight = requests;
    const kind = (requests[0] as SqlRequest).kind;
    inBackground(
      this.session
        .execute(
          kind,
          requests.map(({ item }) => item),
        )
        .then((replies) => this.onReplies(requests, replies)),
      (error) => this.onFailed(requests, error),
    );
    if (!this.cancelDeadline) this.armDeadline(this.options.commandTimeoutMs);
  }

  private onReplies(requests: readonly SqlRequest[], replies: readonly unknown[]): void {
    if (this.inFlight !== requests) return;
    this.inFlight = [];
    this.repliedAt = this.options.clock.now();
    requests.forEach((request, i) => request.resolve(replies[i] as never));
    this.sendNext();
  }

  private onFailed(requests: readonly SqlRequest[], error: unknown): void {
    if (this.inFlight !== requests) return;
    const failure = this.database.failureOf(error);
    if (failure.reason === 'unknown') return this.onLost(error, this.signal);
    this.inFlight = [];
    const now = this.options.clock.now();
    this.repliedAt = now;
    const isSplit = failure.mayBeOne && requests.length > 1;
    const mayRepeat = ({ since }: SqlRequest) => now < since + this.options.commandTimeoutMs;
    const again = isSplit || failure.mayRepeat ? requests.filter(mayRepeat) : [];
    for (const request of requests) {
      if (isSplit) request.isAlone = true;
      if (!again.includes(request)) request.reject(this.errorFor(request, failure, error));
    }
    if (failure.isBlocked)
      this.waiting.push(...again.map((request) => (isSplit ? request : this.paused(request, now))));
    else this.waiting.putBack(again);
    if (failure.isFatal) this.onLost(error, this.signal);
    this.sendNext();
  }

  private failInFlight(failure: Failure, error?: unknown): void {
    const requests = this.inFlight;
    this.inFlight = [];
    for (const request of requests) request.reject(this.errorFor(request, failure, error));
  }

  private errorFor({ key }: SqlRequest, failure: Failure, cause: unknown): Error {
    if (cause instanceof LockConfigurationError) return cause;
    return storeError(this.database.server, failure, key, cause);
  }

  private noConnection(what: string, key: string | undefined): LockStoreError {
    const { lastFailure: last, lastError, database } = this;
    if (last && last.reason !== 'unknown') return storeError(database.server, last, key, lastError);
    const detail = last ? `${what} (last error: ${last.detail})` : what;
    return storeError(database.server, { reason: 'unreachable', detail }, key, lastError);
  }

  private isClosedError(key: string | undefined): LockStoreError {
    return storeError(this.database.server, { reason: 'unreachable', detail: 'the store is closed' }, key);
  }

  // --- deadlines ------------------------------------------------------------------------------------------------

  private armDeadline(ms: number): void {
    this.cancelDeadline?.();
    this.cancelDeadline = afterReading(this.options.clock, ms, (overAt) => this.onDeadline(overAt));
  }

  /**
   * One timer for all requests. It fails those that are due, and is set again for the next.
   *
   * @param now when the timer was due: what was sent since then in a long turn had no chance of a reply
   */
  private onDeadline(now: number): void {
    this.cancelDeadline = undefined;
    const ms = this.options.commandTimeoutMs;
    const isDue = (request: SqlRequest) => this.dueAt(request) <= now;
    const hadSession = this.session !== undefined;
    if (this.inFlight.some(isDue)) this.onLost(new Error(`nothing came back within ${ms} ms`), this.signal);
    for (const request of this.waiting.takeDue(isDue)) {
      const what = hadSession
        ? `no reply to an earlier statement within ${ms} ms`
        : `no connection within ${ms} ms`;
      request.reject(this.noConnection(what, request.key));
    }
    let next = Infinity;
    for (const request of [...this.waiting, ...this.inFlight]) next = Math.min(next, this.dueAt(request));
    if (next < Infinity) this.armDeadline(Math.max(1, Math.ceil(next - this.options.clock.now())));
  }

  private dueAt({ since }: SqlRequest): number {
    return Math.max(since, this.repliedAt) + this.options.commandTimeoutMs;
  }

  private get signal(): AbortSignal {
    return (this.opening as AbortController).signal;
  }

  private paused(request: SqlRequest, now: number): SqlRequest {
    const times = (request.blocked?.times ?? 0) + 1;
    request.blocked = { times, until: now + blockedPause(this.options.chance, times) };
    return request;
  }
}
