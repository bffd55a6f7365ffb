import type { Chance, Clock } from '../common/clock.js';
import { minOf } from '../common/collections.js';
import { promiseOf } from '../common/promises.js';
import { conceal } from '../common/redaction.js';
import { ConnectionErrors } from '../connection/connection-errors.js';
import { type Attempt, KeptConnection } from '../connection/kept-connection.js';
import { type PipedRequest, RequestPipe, WaitingRequests } from '../connection/request-pipe.js';
import { connectWithinMs } from '../connection/timing.js';
import type { LockDocument, Reading } from '../document/document.js';
import type { NamePage, NameRequest, Swap, Take, WriteReply } from '../document/timed-register.js';
import type { StoreState } from '../port/lock-store.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type {
  BatchedStatements,
  Named,
  Scan,
  Slice,
  SqlDatabase,
  SqlFailure,
  SqlLink,
  SqlWriteReply,
} from './database.js';
import { readingOf } from './database.js';
import { checkLockName, checkRowName, isHolderEntry } from './lock-table.js';

/**
 * The store's connection for statements. One statement is in flight at a time. Requests that arrive meanwhile are sent together in
 * the next statement.
 *
 * A connection that has not replied for `commandTimeoutMs` may be dead. It is replaced, and the requests in flight on it fail.
 */
export class SqlConnection {
  /** Resolves when the first attempt to connect has succeeded or failed. */
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
   * Sends one request, and resolves with its reply.
   *
   * @throws LockStoreError: `unreachable` if the request was never sent, `unknown` if no reply came, otherwise as the error of the
   * database says. LockConfigurationError for a write with access 'read', whatever rights the database user has
   */
  run<Kind extends BatchedKind>(kind: Kind, item: SqlItem<Kind>, key: string): Promise<SqlReply<Kind>> {
    if (kind !== 'read' && this.database.access === 'read') return Promise.reject(readOnlyError());
    return this.add(kind, item, key);
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
    // A database that has refused this client will refuse it again. So fail the waiting requests now, and do not let them time
    // out.
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
  /** The address of the database, for messages. */
  readonly address?: string | undefined;
  readonly onState?: ((state: StoreState) => void) | undefined;
  /** Called with the server's time when a connection was opened, before any other request is sent on it. */
  onTime?(now: number, sentAt: number): void;
}

function readOnlyError(): LockConfigurationError {
  return new LockConfigurationError(
    `This SQL store has access 'read': it lists and inspects locks. To acquire or release them leave the option out.`,
  );
}

const PAUSE_MS = { least: 2, most: 100 };

/**
 * How long a request pauses, in ms, after it has found its row locked by another transaction for the n-th time in a row. A
 * transaction of this library commits within a millisecond or two, so the first pause is short. One of the application may take
 * long, so later pauses grow.
 */
function blockedPause(chance: Chance, times: number): number {
  return Math.min(PAUSE_MS.least * 2 ** (times - 1), PAUSE_MS.most) * (0.5 + chance.random());
}

/** How many requests one statement may contain. Larger statements are no faster per request. */
const MAX_TOGETHER = 128;

/**
 * The requests that wait for the connection. Requests of the same kind go into one statement, sorted by name, with each name at
 * most once.
 */
class WaitingSqlRequests extends WaitingRequests<SqlRequest> {
  /**
   * Removes and returns the requests for the next statement: the one that has waited longest, and others of its kind. Returns none
   * while all requests pause.
   */
  takeNext(now: number): readonly SqlRequest[] {
    const ready = this.requests.filter((request) => pausesUntil(request) <= now);
    const [first] = ready;
    if (!first) return [];
    const isSingle = (request: SqlRequest) => request.isAlone || typeof request.kind === 'function';
    const next = new Map([[first.item.name, first]]);
    if (!isSingle(first)) {
      for (const request of ready) {
        if (next.size === MAX_TOGETHER) break;
        const { name } = request.item;
        if (request.kind === first.kind && !isSingle(request) && !next.has(name)) next.set(name, request);
      }
    }
    const taken = new Set(next.values());
    return [...this.take((request) => taken.has(request))].sort((a, b) => compare(a.item.name, b.item.name));
  }

  /** When the first pausing request may be sent again, by our clock. */
  get nextAt(): number {
    return minOf(this.requests.map(pausesUntil));
  }
}

export type BatchedKind = keyof BatchedStatements;
export type SqlItem<Kind extends BatchedKind> = Parameters<BatchedStatements[Kind]>[0][number];
export type SqlReply<Kind extends BatchedKind> = Awaited<ReturnType<BatchedStatements[Kind]>>[number];

interface SqlRequest extends PipedRequest {
  /** The kind of a request that can share a statement with others, or else a function that sends this request alone. */
  readonly kind: BatchedKind | ((link: SqlLink) => Promise<unknown>);
  readonly item: Named;
  /** Send this request alone: a statement that contained it together with others has failed. */
  isAlone?: boolean;
  /**
   * Set while another transaction has the row locked: how many times in a row this request has met that lock, and until when it
   * pauses, by our clock.
   */
  blocked?: { readonly times: number; readonly until: number };
  resolve(reply: never): void;
}

function pausesUntil({ blocked }: SqlRequest): number {
  return blocked?.until ?? -Infinity;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Stores documents as rows of one table, over one connection. */
export class SqlDocuments {
  constructor(protected readonly connection: SqlConnection) {}

  take(take: Take): Promise<WriteReply> {
    return promiseOf(() => {
      checkLockName(take.name);
      return this.takeRow(take);
    });
  }

  takeRow(take: Take): Promise<WriteReply> {
    const { name } = take;
    return this.connection.run('take', take, name).then((reply) => writeReply(name, reply));
  }

  swap(swap: Swap): Promise<WriteReply> {
    const { name } = swap;
    return this.connection.run('swap', swap, name).then((reply) => writeReply(name, reply));
  }

  /** Overwrites a document that was just read, without a lane. The caller must not grant a lock by this. */
  replace(name: string, expected: Reading, next: LockDocument): Promise<WriteReply> {
    const { lastToken } = expected;
    const deadline = (): number => this.soonAfter(expected);
    const swap = {
      name,
      expected,
      next,
      lastToken,
      failOnUnreadNotes: true,
      notified: [],
      mayBeForgotten: true,
    };
    return this.swap({ ...swap, deadline });
  }

  async read(name: string): Promise<Reading> {
    checkRowName(name);
    return readingOf(name, await this.connection.run('read', { name }, name));
  }

  /** Reads rows in order of their names, and returns the names of those documents that have a holder or a waiter. */
  async list({ prefix, after, most }: NameRequest): Promise<NamePage> {
    checkRowName(prefix);
    checkRowName(after ?? '');
    const first = after === undefined && prefix !== '' ? [prefix] : [];
    const { last, held } = await this.scan({ after: after ?? prefix, most });
    const names = [...first, ...held].filter((name) => name.startsWith(prefix) && !isHolderEntry(name));
    return { names, after: last?.startsWith(prefix) ? last : undefined };
  }

  scan(scan: Scan): Promise<Slice> {
    return this.connection.runAlone((link) => link.scan(scan));
  }

  deleteFree(names: readonly string[]): Promise<void> {
    return this.connection.runAlone((link) => link.deleteFree(names));
  }

  async close(): Promise<void> {
    this.connection.close();
  }

  /** The deadline of a write that is sent right after this reading. */
  protected soonAfter({ now }: Reading): number {
    return Math.ceil(now + 2 * this.connection.commandTimeoutMs);
  }
}

function writeReply(name: string, { isDone, row }: SqlWriteReply): WriteReply {
  return { isDone, reading: readingOf(name, row) };
}
