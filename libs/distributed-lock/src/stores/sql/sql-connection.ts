import { LockConfigurationError } from '../../port/lock.errors.js';
import type { StoreState } from '../../port/lock-store.js';
import { conceal } from '../../redaction/conceal.js';
import type { Chance } from '../../time/chance.js';
import type { Clock } from '../../time/clock.js';
import { ConnectionErrors } from '../common/connection/connection-errors.js';
import { connectWithinMs } from '../common/connection/keep-alive.js';
import { KeptConnection, type Attempt } from '../common/connection/kept-connection.js';
import { RequestPipe } from '../common/connection/request-pipe.js';
import type { SqlDatabase, SqlFailure, SqlLink } from './sql-database.js';
import {
  WaitingSqlRequests,
  type BatchedKind,
  type SqlItem,
  type SqlReply,
  type SqlRequest,
} from './sql-requests.js';

/**
 * The store's connection for statements. One statement is in flight at a time, and the requests that come meanwhile go
 * together in the next one.
 *
 * A connection that has not replied for `commandTimeoutMs` may be stuck. It is replaced, and the requests in flight fail with
 * it.
 */
export class SqlConnection {
  /** The first attempt to connect has ended. */
  readonly attempted: Promise<void>;
  readonly commandTimeoutMs: number;
  private onAttempted = (): void => undefined;
  private readonly waiting = new WaitingSqlRequests();
  private readonly errors: ConnectionErrors;
  private readonly kept: KeptConnection<SqlLink>;
  private readonly pipe: RequestPipe<SqlRequest>;
  private cancelPause = (): void => undefined;

  constructor(
    private readonly database: SqlDatabase,
    private readonly options: ConnectionOptions,
  ) {
    conceal(this, 'database', 'kept');
    const ms = (this.commandTimeoutMs = options.commandTimeoutMs);
    this.attempted = new Promise((resolve) => (this.onAttempted = resolve));
    const errors = (this.errors = new ConnectionErrors(database.server, options.address));
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
      attempt: () => this.attempt(),
      onOpen: (link) => this.onOpen(link),
      onDown: (error) => this.onDown(error),
      outageError: () => errors.noConnection(`no connection for ${ms} ms`),
    });
    this.kept.start();
  }

  /**
   * @throws LockStoreError: `unreachable` if it was never sent, `unknown` if it was and no reply came, or as the reply says.
   * LockConfigurationError for a write with access 'read', whatever the user of the database may
   */
  run<Kind extends BatchedKind>(kind: Kind, item: SqlItem<Kind>, key: string): Promise<SqlReply<Kind>> {
    if (kind !== 'read' && this.database.access === 'read') return Promise.reject(readOnlyError());
    return this.add(kind, item, key);
  }

  runAlone<Reply>(send: (link: SqlLink) => Promise<Reply>): Promise<Reply> {
    return this.add(send, { name: '' });
  }

  /** Rejects the requests in flight. Leaves no socket and no timer, whatever the server does. */
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

  private attempt(): Attempt<SqlLink> {
    const withinMs = connectWithinMs(this.commandTimeoutMs);
    return {
      withinMs,
      lateError: new Error(
        `nothing that ${this.database.server} would send came back within ${withinMs} ms; is it ${this.database.server}, and not another server?`,
      ),
      open: (signal, onLost) => this.database.open(signal, onLost),
    };
  }

  private onOpen({ opened }: SqlLink): void {
    this.onAttempted();
    this.errors.last = undefined;
    this.pipe.onAnswer();
    this.options.onTime?.(opened.now, opened.sentAt);
    this.pipe.sendNext();
  }

  private onDown(error: unknown): void {
    this.onAttempted();
    const failure = this.database.failureOf(error);
    this.errors.last = { failure, error };
    this.reject(this.pipe.takeInFlight(), { ...failure, reason: 'unknown' }, error);
    // A database that refuses this client will refuse it again: its callers need not wait for their deadlines.
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
    const failure = this.database.failureOf(error);
    if (failure.reason === 'unknown') return this.kept.lose(link, error);
    this.pipe.onAnswer();
    const now = this.options.clock.now();
    const isSplit = failure.mayBeOne && requests.length > 1;
    const mayRepeat = ({ since }: SqlRequest) => now < since + this.commandTimeoutMs;
    const again = isSplit || failure.mayRepeat ? requests.filter(mayRepeat) : [];
    if (isSplit) for (const request of requests) request.isAlone = true;
    const failed = requests.filter((request) => !again.includes(request));
    this.reject(failed, failure, error);
    if (!failure.isBlocked) this.waiting.putBack(again);
    else for (const request of again) this.waiting.push(isSplit ? request : this.paused(request, now));
    if (failure.isFatal) this.kept.lose(link, error);
    this.pipe.sendNext();
  }

  private reject(requests: readonly SqlRequest[], failure: SqlFailure, error: unknown): void {
    for (const request of requests) request.reject(this.errors.of(failure, request.key, error));
  }

  private paused(request: SqlRequest, now: number): SqlRequest {
    const times = (request.blocked?.times ?? 0) + 1;
    request.blocked = { times, until: now + blockedPause(this.options.chance, times) };
    return request;
  }
}

interface ConnectionOptions {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly commandTimeoutMs: number;
  /** Where the database is, for messages. */
  readonly address?: string | undefined;
  readonly onState?: ((state: StoreState) => void) | undefined;
  /** Gets the server's time from each new connection, before any other request is sent on it. */
  onTime?(now: number, sentAt: number): void;
}

function readOnlyError(): LockConfigurationError {
  return new LockConfigurationError(
    `This SQL store has access 'read': it lists and inspects locks. To acquire or release them leave the option out.`,
  );
}

const PAUSE_MS = { least: 2, most: 100 };

/**
 * How long a request pauses that has found its row locked by another transaction for the n-th time in a row. A commit of
 * another client takes a millisecond or two. A transaction of the application may take as long as it likes.
 */
function blockedPause(chance: Chance, times: number): number {
  return Math.min(PAUSE_MS.least * 2 ** (times - 1), PAUSE_MS.most) * (0.5 + chance.random());
}
