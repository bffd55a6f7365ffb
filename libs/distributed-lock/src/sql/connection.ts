import { minOf } from '../common/collections.js';
import { conceal } from '../common/redaction.js';
import { ConnectionErrors } from '../connection/connection-errors.js';
import { KeptConnection } from '../connection/kept-connection.js';
import { WaitingRequests } from '../connection/reply-deadline.js';
import { type PipedRequest, RequestPipe } from '../connection/request-pipe.js';
import { connectWithinMs } from '../connection/timing.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { Named, SqlDatabase, SqlFailure, SqlLink } from './database.js';
import type { SqlContext } from './store.js';

/**
 * The store's connection for statements. One statement is in flight at a time. Requests that arrive meanwhile are sent together in
 * the next statement. A connection that has not replied for `commandTimeoutMs` is replaced, and the requests in flight on it fail.
 */
export class SqlConnection {
  /** Resolves when the first attempt to connect has succeeded or failed. */
  readonly attempted: Promise<void>;
  private onAttempted = (): void => undefined;
  private readonly waiting = new WaitingSqlRequests();
  private readonly errors: ConnectionErrors;
  private readonly kept: KeptConnection<SqlLink>;
  private readonly pipe: RequestPipe<SqlRequest>;
  private cancelPause = (): void => undefined;

  constructor(
    private readonly database: SqlDatabase,
    private readonly options: SqlContext,
    /** Called with the server's time when a connection was opened, before any other request is sent on it. */
    private readonly onTime?: (now: number, sentAt: number) => void,
  ) {
    conceal(this, 'database', 'kept');
    const { server } = database;
    const { commandTimeoutMs: ms, address } = options;
    const withinMs = connectWithinMs(ms);
    this.attempted = new Promise((resolve) => (this.onAttempted = resolve));
    const errors = (this.errors = new ConnectionErrors(server, address));
    this.pipe = new RequestPipe({
      ...options,
      waiting: this.waiting,
      sendBatch: () => this.sendBatch(),
      onSilence: (error) => this.kept.lose(this.kept.current, error),
      lateError: ({ key }, isBehind) =>
        errors.noConnection(
          `no ${isBehind ? 'reply to an earlier statement' : 'connection'} within ${ms} ms`,
          key,
        ),
      closedError: (key, reason) => errors.closed(key, reason),
    });
    this.kept = new KeptConnection({
      ...options,
      attempt: () => ({
        withinMs,
        lateError: new Error(
          `nothing that ${server} would send came back within ${withinMs} ms; is it ${server}, and not another server?`,
        ),
        open: (signal, onLost) => database.open(signal, onLost),
      }),
      onOpen: (link) => this.onOpen(link),
      onDown: (error) => this.onDown(error),
      outageError: () => errors.noConnection(`no connection for ${ms} ms`),
    });
    this.kept.start();
  }

  /**
   * @throws LockStoreError: `unreachable` if the request was never sent, `unknown` if no reply came, otherwise as the error of the
   * database says. LockConfigurationError for a write with access 'read', whatever rights the database user has
   */
  run<Kind extends BatchedKind>(kind: Kind, item: SqlItem<Kind>): Promise<SqlReply<Kind>> {
    if (kind !== 'read' && this.options.access === 'read') return Promise.reject(readOnlyError());
    return this.add(kind, item, item.name);
  }

  runAlone<Reply>(send: (link: SqlLink) => Promise<Reply>): Promise<Reply> {
    return this.add(send, { name: '' });
  }

  /** Rejects all requests and ends the connection, even if the server does not react. Leaves no socket and no timer behind. */
  close(): void {
    this.cancelPause();
    this.kept.close();
    this.onAttempted();
    this.pipe.close();
  }

  private add<Reply>(kind: SqlRequest['kind'], item: SqlRequest['item'], key?: string): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.pipe.add({ kind, item, key, since: this.options.clock.now(), resolve, reject });
    });
  }

  private onOpen({ opened }: SqlLink): void {
    this.onAttempted();
    this.errors.last = undefined;
    this.pipe.onAnswer();
    this.onTime?.(opened.now, opened.sentAt);
    this.pipe.sendNext();
  }

  private onDown(error: unknown): void {
    this.onAttempted();
    const failure = this.failureOf(error);
    this.errors.last = { failure, error };
    this.reject(this.pipe.takeInFlight(), { ...failure, reason: 'unknown' }, error);
    // A database that has refused this client will refuse it again, so do not let the waiting requests time out.
    if (failure.reason !== 'refused') return;
    for (const request of this.waiting.take())
      request.reject(this.errors.unsent('no connection', request.key));
  }

  private sendBatch(): void {
    const { current: link } = this.kept;
    if (!link) return;
    const { clock } = this.options;
    const requests = this.waiting.takeNext(clock.now());
    const [first] = requests;
    if (!first) {
      this.cancelPause();
      const ms = Math.max(0, this.waiting.nextAt - clock.now());
      this.cancelPause = clock.after(ms, () => this.pipe.sendNext());
      return;
    }
    const items = requests.map(({ item }) => item) as never;
    const { kind } = first;
    const replies: Promise<readonly unknown[]> =
      typeof kind === 'function' ? kind(link).then((reply) => [reply]) : link[kind](items);
    this.pipe.send(requests, replies, {
      onReply: (replies) => requests.forEach((request, i) => request.resolve(replies[i] as never)),
      onFailure: (error) => this.onFailed(link, requests, error),
    });
  }

  private onFailed(link: SqlLink, requests: readonly SqlRequest[], error: unknown): void {
    const failure = this.failureOf(error);
    if (failure.reason === 'unknown') return this.kept.lose(link, error);
    this.pipe.onAnswer();
    const { clock, commandTimeoutMs } = this.options;
    const now = clock.now();
    const isSplit = failure.mayBeOne && requests.length > 1;
    const mayRepeat = ({ since }: SqlRequest) => now < since + commandTimeoutMs;
    const again = isSplit || failure.mayRepeat ? requests.filter(mayRepeat) : [];
    if (isSplit) for (const request of requests) request.isAlone = true;
    const failed = requests.filter((request) => !again.includes(request));
    this.reject(failed, failure, error);
    if (!failure.isBlocked) this.waiting.putBack(again);
    else for (const request of again) this.waiting.push(isSplit ? request : this.paused(request, now));
    if (failure.isFatal) this.kept.lose(link, error);
    this.pipe.sendNext();
  }

  private failureOf(error: unknown): SqlFailure {
    if (error instanceof LockConfigurationError) return { reason: 'refused', detail: error.message };
    return this.database.failureOf(error);
  }

  private reject(requests: readonly SqlRequest[], failure: SqlFailure, error: unknown): void {
    for (const request of requests) request.reject(this.errors.of(failure, request.key, error));
  }

  private paused(request: SqlRequest, now: number): SqlRequest {
    const times = (request.blocked?.times ?? 0) + 1;
    const ms = Math.min(PAUSE_MS.least * 2 ** (times - 1), PAUSE_MS.most);
    request.blocked = { times, until: now + ms * (0.5 + this.options.chance.random()) };
    return request;
  }
}

function readOnlyError(): LockConfigurationError {
  return new LockConfigurationError(
    `This SQL store has access 'read': it lists and inspects locks. To acquire or release them leave the option out.`,
  );
}

/**
 * How long a request pauses, in ms, after it has found its row locked by another transaction. A transaction of this library commits
 * within a millisecond or two, so the first pause is short. One of the application may take long, so later pauses grow.
 */
const PAUSE_MS = { least: 2, most: 100 };

/** How many requests one statement may contain. Larger statements are no faster per request. */
const MAX_TOGETHER = 128;

class WaitingSqlRequests extends WaitingRequests<SqlRequest> {
  /** Takes the requests for the next statement: the one that has waited longest, and others of its kind. None while all pause. */
  takeNext(now: number): readonly SqlRequest[] {
    const ready = this.requests.filter((request) => pausesUntil(request) <= now);
    const [first] = ready;
    if (!first) return [];
    const isSingle = (request: SqlRequest) => request.isAlone || typeof request.kind === 'function';
    const next = new Map([[first.item.name, first]]);
    for (const request of isSingle(first) ? [] : ready) {
      if (next.size === MAX_TOGETHER) break;
      const { name } = request.item;
      if (request.kind === first.kind && !isSingle(request) && !next.has(name)) next.set(name, request);
    }
    const taken = new Set(next.values());
    const byName = (a: SqlRequest, b: SqlRequest) => (a.item.name < b.item.name ? -1 : 1);
    return [...this.take((request) => taken.has(request))].sort(byName);
  }

  /** When the first pausing request may be sent again, by our clock. */
  get nextAt(): number {
    return minOf(this.requests.map(pausesUntil));
  }
}

type BatchedKind = 'take' | 'swap' | 'read';
type SqlItem<Kind extends BatchedKind> = Parameters<SqlLink[Kind]>[0][number];
type SqlReply<Kind extends BatchedKind> = Awaited<ReturnType<SqlLink[Kind]>>[number];

interface SqlRequest extends PipedRequest {
  /** The kind of a request that can share a statement with others, or else a function that sends this request alone. */
  readonly kind: BatchedKind | ((link: SqlLink) => Promise<unknown>);
  readonly item: Named;
  /** Send this request alone: a statement that contained it together with others has failed. */
  isAlone?: boolean;
  /** How many times in a row another transaction had the row locked, and until when this request pauses, by our clock. */
  blocked?: { readonly times: number; readonly until: number };
  resolve(reply: never): void;
}

function pausesUntil({ blocked }: SqlRequest): number {
  return blocked?.until ?? -Infinity;
}
