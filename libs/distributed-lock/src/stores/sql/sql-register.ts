import { keepAlive } from '../common/keep-alive.js';
import { inBackground } from '../../async/in-background.js';
import type { LockStoreContext } from '../../port/lock-store.js';
import type {
  Interest,
  NotFree,
  Reading,
  Register,
  RegisterListener,
  Swap,
  SwapReply,
  Take,
  TakeReply,
} from '../document/register.js';
import { isFree } from '../document/document.js';
import { checkLockName } from './lock-name.js';
import { Poller } from './poller.js';
import { SqlConnection, type SqlDatabase } from './sql-connection.js';
import { INITIAL_LEASE_MS } from './sql-options.js';
import { readingOf } from './sql-row.js';
import { timed } from './steps.js';
import { Sweeper } from './sweeper.js';

/** Documents in the rows of one table. Where nothing else notifies this client, it polls. */
export class SqlRegister implements Register {
  readonly initialLeaseMs = INITIAL_LEASE_MS;
  readonly endsLeases = true;
  readonly mayLoseWrites = true;
  readonly isRemote = true;
  protected readonly connection: SqlConnection;
  protected readonly poller: Poller;
  protected listener: RegisterListener | undefined;
  private readonly sweeper: Sweeper;
  private readonly stopKeepingAlive: () => void;

  constructor(
    database: SqlDatabase,
    readonly commandTimeoutMs: number,
    { clock, onState }: LockStoreContext,
    readonly address?: string,
  ) {
    this.connection = new SqlConnection(database, {
      clock,
      commandTimeoutMs,
      onState,
      onTime: (now, sentAt) => this.listener?.onTime(now, sentAt),
    });
    this.poller = new Poller(
      clock,
      (name) => this.read(name),
      (name, reading) => this.listener?.onReading(name, reading),
    );
    this.sweeper = new Sweeper(clock, this, (after) => this.connection.run('sweep', { name: '', after }));
    this.stopKeepingAlive = keepAlive(clock, () =>
      inBackground(this.connection.run('ping', { name: '' }), () => undefined),
    );
  }

  listen(listener: RegisterListener): void {
    this.listener = listener;
  }

  async take(take: Take): Promise<TakeReply> {
    const { name } = take;
    checkLockName(name);
    const { isDone, row } = await this.connection.run('take', timed(take), name);
    return { isTaken: isDone, reading: readingOf(name, row) };
  }

  async takeAll(takes: readonly Take[]): Promise<readonly Reading[] | NotFree> {
    for (const { name } of takes) checkLockName(name);
    const [first] = takes as readonly [Take];
    const step = { name: first.name, takes: takes.map((take) => timed(take)) };
    const { isDone, rows } = await this.connection.run('takeAll', step, first.name);
    const readings = rows.map((row, i) => readingOf((takes[i] as Take).name, row));
    if (isDone) return readings;
    const index = Math.max(
      0,
      readings.findIndex(({ document }) => !isFree(document)),
    );
    return { index, reading: readings[index] as Reading };
  }

  async swap(swap: Swap): Promise<SwapReply> {
    const { isDone, row } = await this.connection.run('swap', timed(swap), swap.name);
    return { isSwapped: isDone, reading: readingOf(swap.name, row) };
  }

  async read(name: string): Promise<Reading> {
    checkLockName(name);
    const { row } = await this.connection.run('read', { name }, name);
    return readingOf(name, row);
  }

  watch(name: string, interest: Interest | undefined): void {
    this.poller.watch(name, interest);
  }

  async close(): Promise<void> {
    this.stopKeepingAlive();
    this.sweeper.close();
    this.poller.close();
    this.connection.close();
  }
}
