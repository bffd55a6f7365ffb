import { inBackground } from '../../../async-context/in-background.js';
import { giveUpAfter } from '../../../time/turns.js';
import type { Chance } from '../../../time/chance.js';
import type { Clock } from '../../../time/clock.js';
import type { LockStoreError } from '../../../port/lock.errors.js';
import { Outage, type OutageOptions } from './outage.js';
import { reconnectDelay } from './keep-alive.js';

/** A connection that was open for longer than this ends the series of failures. */
const STABLE_MS = 1000;

/** Opens a connection, and opens another one after a delay whenever it is lost. */
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

  /** The connection can send no more. One that was replaced is not lost again. */
  lose(connection: Connection | undefined, error: unknown): void {
    if (!connection || this.current !== connection) return;
    this.current = undefined;
    connection.destroy();
    // A connection that fails right after it was opened counts as a failed attempt, so that the delays go on growing.
    if (this.options.clock.now() - this.openedAt > STABLE_MS) this.failures = 0;
    this.onDown(error);
  }

  /** Loses the connection, or ends the attempt to open one: another one is wanted. */
  giveUp(error: unknown): void {
    if (this.current) this.lose(this.current, error);
    else this.opening?.abort(error);
  }

  /** Leaves no socket and no timer, whatever the server does. */
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
    // The promise of an aborted attempt may never settle.
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
   * @param onLost is called when an open connection can send no more
   */
  readonly open: (signal: AbortSignal, onLost: (error: unknown) => void) => Promise<Connection>;
}

interface KeptOptions<Connection> extends OutageOptions {
  readonly clock: Clock;
  readonly chance: Chance;
  readonly attempt: () => Attempt<Connection>;
  /** How many attempts after a failure are made without a delay; default 0. */
  readonly quickAttempts?: number;
  readonly onOpen: (connection: Connection) => void;
  /** A connection was lost, or could not be opened. The next attempt follows. */
  readonly onDown: (error: unknown, failures: number) => void;
  /** The error that `onState` gets with an outage. Absent: no outage is reported. */
  readonly outageError?: () => LockStoreError;
}
