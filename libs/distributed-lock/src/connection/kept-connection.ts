import type { Readable } from 'node:stream';
import { type Chance, type Clock, giveUpAfter } from '../common/clock.js';
import { inBackground } from '../common/promises.js';
import type { StoreState } from '../port/lock-store.js';
import type { LockStoreError } from '../port/lock.errors.js';
import { reconnectDelay } from './timing.js';

/** When a connection that stayed open for longer is lost, reconnecting starts again with the shortest delay. */
const STABLE_MS = 1000;

/** Keeps one connection open: opens another when it is lost or cannot be opened, after delays that grow with each failure. */
export class KeptConnection<Connection extends { destroy(): void }> {
  current: Connection | undefined;
  private readonly outage: Outage | undefined;
  private opening: AbortController | undefined;
  private openedAt = -Infinity;
  private failures = 0;
  private isClosed = false;
  private cancelReconnect = (): void => undefined;

  constructor(private readonly options: KeptOptions<Connection>) {
    const { outageError } = options;
    this.outage = outageError && new Outage(options, outageError);
  }

  start(): void {
    if (this.isClosed) return;
    this.outage?.onDown();
    this.connect();
  }

  /** Drops a connection that can send nothing more, and opens another. Does nothing if `connection` was replaced already. */
  lose(connection: Connection | undefined, error: unknown): void {
    if (!connection || this.current !== connection) return;
    this.current = undefined;
    connection.destroy();
    // A connection that fails right after it was opened counts as a failed attempt, so that the delays go on growing.
    if (this.options.clock.now() - this.openedAt > STABLE_MS) this.failures = 0;
    this.onDown(error);
  }

  /** Replaces the connection, or the attempt to open one. */
  giveUp(error: unknown): void {
    if (this.current) this.lose(this.current, error);
    else this.opening?.abort(error);
  }

  /** Ends the connection or the attempt at once, even if the server does not react. */
  close(): void {
    this.isClosed = true;
    this.outage?.stop();
    this.cancelReconnect();
    this.opening?.abort();
    const { current } = this;
    this.current = undefined;
    current?.destroy();
  }

  private connect(): void {
    const { clock, attempt } = this.options;
    const { withinMs, lateError, open } = attempt();
    const opening = (this.opening = new AbortController());
    const { signal } = opening;
    const cancel = giveUpAfter(clock, withinMs, () => opening.abort(lateError));
    const onLost = (error: unknown): void => {
      if (this.opening === opening) this.lose(this.current, error);
    };
    const onNotOpen = (error: unknown): void => {
      if (this.isClosed || this.opening !== opening) return;
      this.opening = undefined;
      this.onDown(error);
    };
    // Do not wait for the promise of `open`: after an abort it may never settle.
    signal.addEventListener('abort', () => {
      cancel();
      onNotOpen(signal.reason);
    });
    inBackground(
      open(signal, onLost)
        .finally(cancel)
        .then((connection) => (signal.aborted ? connection.destroy() : this.onOpened(connection))),
      onNotOpen,
    );
  }

  private onOpened(connection: Connection): void {
    this.current = connection;
    this.openedAt = this.options.clock.now();
    this.outage?.onUp();
    this.options.onOpen(connection);
  }

  private onDown(error: unknown): void {
    if (this.isClosed) return;
    const { clock, chance, quickAttempts = 0, onDown } = this.options;
    const failures = this.failures++;
    this.outage?.onDown();
    this.cancelReconnect();
    onDown(error, failures);
    if (this.isClosed) return;
    if (failures < quickAttempts) return this.connect();
    const ms = reconnectDelay(chance, failures - quickAttempts);
    this.cancelReconnect = clock.after(ms, () => this.connect());
  }
}

export interface Attempt<Connection> {
  readonly withinMs: number;
  readonly lateError: Error;
  /**
   * @param signal aborts when the connection is no longer wanted
   * @param onLost must be called when the open connection can send no more
   */
  readonly open: (signal: AbortSignal, onLost: (error: unknown) => void) => Promise<Connection>;
}

interface KeptOptions<Connection> extends OutageOptions {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly attempt: () => Attempt<Connection>;
  /** How many attempts follow a failure without any delay; default 0. */
  readonly quickAttempts?: number;
  readonly onOpen: (connection: Connection) => void;
  readonly onDown: (error: unknown, failures: number) => void;
  /** Makes the error that `onState` gets. Without it, outages are not reported. */
  readonly outageError?: () => LockStoreError;
}

/** Reports lost connections to the application, unless a new one opens within `commandTimeoutMs`: no call has failed by then. */
export class Outage {
  private downSince: number | undefined;
  private isReported = false;
  private cancel = (): void => undefined;

  constructor(
    private readonly options: OutageOptions,
    private readonly error: () => LockStoreError,
  ) {}

  onDown(): void {
    const { clock, commandTimeoutMs, onState } = this.options;
    if (this.downSince !== undefined) return;
    this.downSince = clock.now();
    this.cancel = clock.after(commandTimeoutMs, () => {
      this.isReported = true;
      onState?.({ isUp: false, error: this.error() });
    });
  }

  onUp(): void {
    const { clock, onState } = this.options;
    const { isReported, downSince } = this;
    this.cancel();
    this.downSince = undefined;
    this.isReported = false;
    if (isReported && downSince !== undefined) onState?.({ isUp: true, afterMs: clock.now() - downSince });
  }

  stop(): void {
    this.cancel();
  }
}

export interface OutageOptions {
  readonly clock: Clock;
  readonly commandTimeoutMs: number;
  readonly onState?: ((state: StoreState) => void) | undefined;
}

/** How servers of several kinds start to speak, decoded as latin1. A capture group is the version of the server. */
const STARTS: readonly (readonly [server: string, start: RegExp])[] = [
  // MySQL's first packet: three bytes with its length, its number 0, then the version of the protocol (10), or 255 for an error.
  ['MySQL', /^..\0\0(?:\n([^\0]*)|\xff)/s],
  ['HTTP', /^HTTP\//],
  // The first frame is SETTINGS (type 4): three bytes with its length, then its type.
  // oxlint-disable-next-line no-control-regex -- bytes
  ['HTTP/2', /^\0\0.\x04/s],
  // A TLS 1 record: an alert (21) or a handshake (22).
  // oxlint-disable-next-line no-control-regex -- bytes
  ['TLS', /^[\x15\x16]\x03/],
  ['SSH', /^SSH-/],
  ['memcached', /^ERROR\r\n/],
  ['Redis', /^[-+][A-Z]{2}/],
  // An error message of PostgreSQL, in version 3 or 2 of its protocol.
  ['PostgreSQL', /^E.{0,5}S?FATAL/s],
];

const NAMES: Readonly<Record<string, string>> = {
  MySQL: 'MySQL or MariaDB',
  HTTP: 'an HTTP server',
  'HTTP/2': 'an HTTP/2 server, as etcd',
  TLS: 'a server that speaks TLS',
  SSH: 'an SSH server',
};

/** Recognizes another kind of server by its first bytes, for example because the port is wrong. */
export class ServerProtocol {
  constructor(private readonly expected: ExpectedServer) {}

  /** @returns what is wrong, for messages; `undefined` if these first bytes may come from the expected server */
  strangeReply(first: Buffer): string | undefined {
    const { server, reply, tls } = this.expected;
    const text = first.toString('latin1');
    const [other, start] = STARTS.find(([, start]) => start.test(text)) ?? [];
    if (other === server || (!other && reply?.test(text))) return undefined;
    const version = start?.exec(text)?.[1]?.replace(/[^\w.:+~-]/g, '');
    const name = other === undefined ? 'another server' : (NAMES[other] ?? other);
    const detail = other === 'TLS' ? tls : version;
    return `no ${server} answers there, but ${name}${detail === undefined ? '' : ` (${detail})`}`;
  }

  /** @returns the message for a server that closed the connection before it sent a byte, for example because it expects TLS */
  closedUnanswered(): string {
    const { server, tls } = this.expected;
    return `the server took the connection and closed it without an answer; is it ${server}? With TLS: ${tls}`;
  }

  /**
   * Watches a connection that is being opened. Calls `onStrange` at most once, before the listeners of the client library run: when
   * the first bytes come from another kind of server, or when the connection is closed before any byte has come.
   */
  watch(stream: Readable, onStrange: (error: Error) => void): void {
    let isConnected = false;
    const end = (): void => {
      stream.removeListener('data', onData);
      for (const event of ['error', 'end', 'close']) stream.removeListener(event, onClosed);
    };
    const onData = (first: Buffer): void => {
      end();
      const strange = this.strangeReply(first);
      if (strange !== undefined) onStrange(new Error(strange));
    };
    const onClosed = (cause?: unknown): void => {
      end();
      if (isConnected) onStrange(new Error(this.closedUnanswered(), { cause }));
    };
    stream.once('connect', () => (isConnected = true));
    stream.prependListener('data', onData);
    for (const event of ['error', 'end', 'close']) stream.prependListener(event, onClosed);
  }
}

interface ExpectedServer {
  /** The name of the server for messages: `PostgreSQL`. */
  readonly server: string;
  /** How the server's first reply begins, decoded as latin1. */
  readonly reply?: RegExp;
  /** For messages: what the user must write in the URL or the options to connect with TLS. */
  readonly tls: string;
}

/** Callers that wait until a connection or a session is open. */
export class Openings<Opened> {
  private readonly waiting = new Set<Opening<Opened>>();

  constructor(private readonly clock: Clock) {}

  get size(): number {
    return this.waiting.size;
  }

  /** @throws the error that `refuse` passes to all waiters, or that of `lateError` if nothing was opened within `withinMs` */
  wait({ key, withinMs, lateError }: Wait): Promise<Opened> {
    return new Promise((resolve, reject) => {
      const cancel = giveUpAfter(this.clock, withinMs, () => {
        this.waiting.delete(opening);
        reject(lateError());
      });
      const opening = { key, cancel, resolve, reject };
      this.waiting.add(opening);
    });
  }

  onOpen(opened: Opened): void {
    for (const { resolve } of this.takeAll()) resolve(opened);
  }

  refuse(errorFor: (key: string | undefined) => Error): void {
    for (const { key, reject } of this.takeAll()) reject(errorFor(key));
  }

  private takeAll(): readonly Opening<Opened>[] {
    const all = [...this.waiting];
    this.waiting.clear();
    for (const { cancel } of all) cancel();
    return all;
  }
}

interface Wait {
  readonly key: string | undefined;
  readonly withinMs: number;
  readonly lateError: () => Error;
}

interface Opening<Opened> {
  readonly key: string | undefined;
  readonly cancel: () => void;
  readonly resolve: (opened: Opened) => void;
  readonly reject: (error: Error) => void;
}
