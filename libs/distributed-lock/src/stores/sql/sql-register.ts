import { inBackground } from '../../async-context/in-background.js';
import { LOCK } from '../../port/claim.js';
import type { Introduction, LockStoreContext } from '../../port/lock-store.js';
import { systemChance } from '../../time/chance.js';
import { keepAlive } from '../common/connection/keep-alive.js';
import { asciiText, textIn } from '../core/ascii-text.js';
import { isOver, type Reading } from '../core/document.js';
import type { Interest, Register, RegisterListener } from '../core/register.js';
import { introductionRow } from './lock-name.js';
import { Poller } from './poller.js';
import { SqlConnection } from './sql-connection.js';
import type { SqlDatabase } from './sql-database.js';
import { SqlDocuments } from './sql-documents.js';
import { SQL_INITIAL_LEASE_MS } from './sql-options.js';
import { TableSweeper } from './sweeper.js';

/** Documents in the rows of one table. Where nothing else notifies this client, it polls. */
export class SqlRegister extends SqlDocuments implements Register {
  readonly initialLeaseMs = SQL_INITIAL_LEASE_MS;
  readonly mayLoseWrites = true;
  readonly isRemote = true;
  readonly commandTimeoutMs: number;
  protected readonly poller: Poller;
  protected listener: RegisterListener | undefined;
  private readonly sweeper: TableSweeper | undefined;
  private readonly stopKeepingAlive: () => void;

  constructor(
    database: SqlDatabase,
    private readonly options: SqlRegisterOptions,
  ) {
    const { clock, chance = systemChance, commandTimeoutMs, address, onState } = options;
    const own = { clock, chance, commandTimeoutMs };
    const onTime = (now: number, sentAt: number) => this.listener?.onTime(now, sentAt);
    super(new SqlConnection(database, { ...own, address, onState, onTime }));
    this.commandTimeoutMs = commandTimeoutMs;
    this.poller = new Poller(
      clock,
      (name) => this.read(name),
      (name, reading) => this.listener?.onReading(name, reading),
    );
    if (database.access !== 'read') {
      this.sweeper = new TableSweeper(
        { clock, chance },
        () => new SqlDocuments(new SqlConnection(database, own)),
      );
    }
    this.stopKeepingAlive = keepAlive(clock, () => this.checkConnections());
  }

  get address(): string | undefined {
    return this.options.address;
  }

  listen(listener: RegisterListener): void {
    this.listener = listener;
  }

  watch(name: string, interest: Interest | undefined): void {
    this.poller.watch(name, interest);
  }

  /**
   * Each introduction is a row with a document whose only holder is the client, and the text stands in place of the nonce. An older
   * version of this library takes the row for a lock, and sweeps it when its lease is over.
   */
  async introduce({ clientId, text, leaseMs }: Introduction): Promise<void> {
    const name = introductionRow(clientId);
    const owner = `${clientId}:0`;
    const expected = await this.presentRow(name, owner, leaseMs);
    const lease = { until: { inMs: leaseMs }, nonce: asciiText(text) };
    const holder = { owner, claim: LOCK, token: 1, lastToken: 1, ...lease };
    await this.replace(name, expected, { holders: [holder], queue: [] });
  }

  async readIntroductions(clientIds: readonly string[]): Promise<readonly (string | undefined)[]> {
    const readings = await Promise.all(clientIds.map((id) => this.read(introductionRow(id))));
    return readings.map(({ document, now }) => {
      const [holder] = document.holders;
      return holder?.nonce && !isOver(holder.until, now) ? textIn(holder.nonce) : undefined;
    });
  }

  /** A connection that has died is replaced before a caller needs it. */
  protected checkConnections(): void {
    const checked = this.connection.runAlone((link) => link.ping());
    inBackground(checked, () => undefined);
  }

  override async close(): Promise<void> {
    this.stopKeepingAlive();
    this.sweeper?.close();
    this.poller.close();
    await super.close();
  }

  /** @returns the row, which this makes if there is none */
  private async presentRow(name: string, owner: string, leaseMs: number): Promise<Reading> {
    const found = await this.read(name);
    if (found.version !== undefined) return found;
    const request = { key: name, owner, claim: LOCK, leaseMs, waitMs: 0, ticket: 0, tokens: 1 };
    const notAfter = (): number => this.soonAfter(found);
    return (await this.takeRow({ name, request, minToken: 0, notes: [], notAfter })).reading;
  }
}

export interface SqlRegisterOptions extends LockStoreContext {
  readonly commandTimeoutMs: number;
  /** Where the database is, for messages. */
  readonly address?: string | undefined;
}
