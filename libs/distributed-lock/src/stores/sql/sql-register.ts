import { inBackground } from '../../async-context/in-background.js';
import type { Introduction, LockStoreContext } from '../../port/lock-store.js';
import { systemChance } from '../../time/chance.js';
import { keepAlive } from '../common/connection/keep-alive.js';
import type { Interest, Register, RegisterListener } from '../core/register.js';
import { Poller } from './poller.js';
import { SqlConnection } from './sql-connection.js';
import type { SqlDatabase } from './sql-database.js';
import { SqlDocuments } from './sql-documents.js';
import { SqlIntroductions } from './sql-introductions.js';
import { SQL_INITIAL_LEASE_MS } from './sql-options.js';
import { TableSweeper } from './sweeper.js';

/** Documents in the rows of one table. Where nothing else notifies this client, it polls. */
export class SqlRegister extends SqlDocuments implements Register {
  readonly initialLeaseMs = SQL_INITIAL_LEASE_MS;
  readonly mayLoseWrites = true;
  readonly isRemote = true;
  protected readonly poller: Poller;
  protected listener: RegisterListener | undefined;
  private readonly introductions: SqlIntroductions;
  private readonly sweeper: TableSweeper;
  private readonly stopKeepingAlive: () => void;

  constructor(
    database: SqlDatabase,
    readonly commandTimeoutMs: number,
    { clock, chance = systemChance, onState }: LockStoreContext,
    private readonly givenAddress?: string,
  ) {
    const onTime = (now: number, sentAt: number) => this.listener?.onTime(now, sentAt);
    super(
      new SqlConnection(database, {
        clock,
        chance,
        commandTimeoutMs,
        address: givenAddress,
        onState,
        onTime,
      }),
    );
    this.introductions = new SqlIntroductions(this, commandTimeoutMs);
    this.poller = new Poller(
      clock,
      (name) => this.read(name),
      (name, reading) => this.listener?.onReading(name, reading),
    );
    const own = { clock, chance, commandTimeoutMs, onTime: () => undefined };
    this.sweeper = new TableSweeper(
      { clock, chance, commandTimeoutMs },
      () => new SqlDocuments(new SqlConnection(database, own)),
    );
    this.stopKeepingAlive = keepAlive(clock, () =>
      inBackground(
        this.connection.runAlone((link) => link.ping()),
        () => undefined,
      ),
    );
  }

  introduce(introduction: Introduction): Promise<void> {
    return this.introductions.write(introduction);
  }

  readIntroductions(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    return this.introductions.read(clientIds);
  }

  get address(): string | undefined {
    return this.givenAddress;
  }

  listen(listener: RegisterListener): void {
    this.listener = listener;
  }

  watch(name: string, interest: Interest | undefined): void {
    this.poller.watch(name, interest);
  }

  override async close(): Promise<void> {
    this.stopKeepingAlive();
    this.sweeper.close();
    this.poller.close();
    await super.close();
  }
}
