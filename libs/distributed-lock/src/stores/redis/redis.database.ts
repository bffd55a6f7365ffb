import { LockConfigurationError } from '../../port/lock.errors.js';

/**
 * The number of the database in which the locks of one store are.
 *
 * The client of the application may be told another one by `SELECT`, and nobody announces that to the store. Until the first
 * command the store follows its client. From then on it stays: locks that moved would be held by nobody.
 */
export class TargetDatabase {
  private settled: number | undefined;

  /**
   * @param told the database that the client of the application uses, as far as this process knows
   * @param refresh asks the server for it. Absent where `told` knows it at any time
   */
  constructor(
    private readonly told: () => number,
    readonly refresh?: () => Promise<void>,
  ) {}

  get isSettled(): boolean {
    return this.settled !== undefined;
  }

  /** The database for a connection that is opened now. */
  get current(): number {
    return this.settled ?? this.told();
  }

  /** @throws LockConfigurationError if the client has been told another database since the first command */
  settle(): void {
    const told = this.told();
    this.settled ??= told;
    if (told === this.settled) return;
    throw new LockConfigurationError(
      `The client that redisStore was given has gone from database ${this.settled} to ${told} by SELECT, and the locks of this process are in ${this.settled}. Locks cannot move: give redisStore a client, or options, for one database only.`,
    );
  }
}
