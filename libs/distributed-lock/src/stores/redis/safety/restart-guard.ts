import type { Clock } from '../../../time/clock.js';
import { LockStoreError } from '../../../port/lock.errors.js';
import { WireKeys, type Arguments } from '../scripts/evalsha.js';
import { ScriptCommand } from '../scripts/script-command.js';
import type { ScriptContext } from '../scripts/script-context.js';
import type { RedisConnection } from '../connection/redis.connection.js';
import { guardScript } from '../scripts/scripts.js';

const MOST_ATTEMPTS = 3;

/**
 * Grants nothing on a server that came back without its data until every lease that it has forgotten is over: the
 * "delayed restart" of Redlock's description (redis.io, Distributed locks), without an operator.
 *
 * A server that comes back is met by a new connection, so each connection looks for the mark once.
 */
export class RestartGuard {
  /** The connection that the mark was looked for on, as it is counted. */
  private lookedOn = 0;
  private openFrom = Infinity;
  private looking: Promise<void> | undefined;

  constructor(
    private readonly commands: ScriptContext,
    private readonly connection: RedisConnection,
    private readonly clock: Clock,
    private readonly mark: string,
    private readonly longestLeaseMs: number,
  ) {}

  /**
   * Runs `ask`, which is to call `check` when it writes.
   *
   * @throws LockStoreError `unready` while leases may run that the server has forgotten; otherwise as `ask`
   */
  async pass<T>(key: string, ask: () => Promise<T>): Promise<T> {
    for (let attempts = 1; ; attempts++) {
      if (!this.isUpToDate) await (this.looking ??= this.look(key).finally(() => (this.looking = undefined)));
      try {
        return await ask();
      } catch (error) {
        // `check` has refused this request, or the second copy of it, on a connection that was not looked at yet.
        const isStale = isUnready(error) && !this.isUpToDate;
        if (!isStale || attempts === MOST_ATTEMPTS) throw error;
      }
    }
  }

  private get isUpToDate(): boolean {
    return this.connection.isUp && this.lookedOn === this.connection.generation;
  }

  /**
   * For what is about to be written: the connection may be another one than that which was looked at.
   *
   * @throws LockStoreError `unready`
   */
  check(key: string): void {
    const leftMs = Math.ceil(this.openFrom - this.clock.now());
    if (this.lookedOn !== this.connection.generation) throw unready('it has just come back', key);
    if (leftMs > 0)
      throw unready(
        `it came back without its data, and leases that it has forgotten may run for another ${leftMs} ms (restartGuardMs is ${this.longestLeaseMs})`,
        key,
      );
  }

  private async look(key: string): Promise<void> {
    const command = new GuardCommand(key, this.commands, this.connection, this.mark, this.longestLeaseMs);
    const leftMs = await this.connection.run(command);
    this.lookedOn = command.generation;
    this.openFrom = this.clock.now() + leftMs;
  }
}

class GuardCommand extends ScriptCommand<readonly [leftMs: number, now: number], number> {
  readonly priority = 'acquire';
  override readonly isRepeatable = true;
  generation = 0;

  constructor(
    key: string,
    context: ScriptContext,
    private readonly connection: RedisConnection,
    mark: string,
    private readonly longestLeaseMs: number,
  ) {
    super(guardScript, context, { key, kind: 'lock' }, new WireKeys([mark]));
  }

  protected args(): Arguments {
    this.generation = this.connection.generation;
    return [this.longestLeaseMs];
  }

  protected onReply([leftMs]: readonly [leftMs: number, now: number]): number {
    return leftMs;
  }
}

/** A second copy fails as `unknown`, since the first one may still be executed; its cause says why. */
function isUnready(error: unknown): boolean {
  if (!(error instanceof LockStoreError)) return false;
  const { cause } = error;
  return error.reason === 'unready' || (cause instanceof LockStoreError && cause.reason === 'unready');
}

function unready(why: string, key: string): LockStoreError {
  return new LockStoreError(`Redis is not ready: ${why}.`, key, 'unready');
}
