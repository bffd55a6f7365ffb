import type { Claim } from '../../lock/claim.js';
import type { Clock } from '../../lock/clock.js';
import type { RedisConnection, Urgency } from './redis.connection.js';
import { isWrongType, wrongType } from './redis.errors.js';
import { checkSlot, redisKeys, type RedisKeys } from './redis.keys.js';
import { runScript, type Script } from './redis.scripts.js';

export type Arguments = readonly (string | number)[];

interface Command {
  readonly urgency: Urgency;
  readonly key: string;
  /** It leaves at once, ahead of what follows in this turn of the event loop. */
  readonly isPressing?: boolean;
  /** In which way it is taken; it decides where strangers are told. */
  readonly kind: Claim['kind'];
  /** Made when the command is written, which may be later than it was asked for; may refuse by throwing. */
  readonly args: () => Arguments;
}

interface Naming {
  readonly keyPrefix: string;
  readonly isCluster: boolean;
  readonly sharedTokens: boolean;
}

/** Runs the scripts: from a lock's key to its Redis keys, and from each reply the server's time. */
export class RedisCommands {
  constructor(
    private readonly connection: RedisConnection,
    private readonly clock: Clock,
    private readonly naming: Naming,
  ) {}

  lockName(key: string): string {
    const name = this.naming.keyPrefix + key;
    if (this.naming.isCluster) checkSlot(name);
    return name;
  }

  keysOf(key: string, kind: Claim['kind']): RedisKeys {
    return redisKeys(this.lockName(key), kind, this.naming.sharedTokens);
  }

  /** @throws LockStoreError */
  run<Reply extends readonly [unknown, number, ...unknown[]]>(
    script: Script<Reply>,
    { urgency, isPressing, key, kind, args }: Command,
    keys: readonly string[] = this.keysOf(key, kind),
  ): Promise<{ readonly reply: Reply; readonly sentAt: number }> {
    return this.connection
      .run(urgency, key, (client) => runScript(client, script, keys, args()), isPressing)
      .then(
        ({ value: reply, sentAt }) => {
          if (reply[1] > 0) this.connection.serverClock.learn(reply[1], sentAt, this.clock.now());
          return { reply, sentAt };
        },
        async (error: unknown) => {
          throw await this.explain(key, error);
        },
      );
  }

  /** The classic mistake, a lock named like the data that it protects, is told as what it is. */
  private async explain(key: string, error: unknown): Promise<unknown> {
    const cause = error instanceof Error ? error.cause : undefined;
    if (!isWrongType(cause)) return error;
    const name = this.lockName(key);
    try {
      const { value: type } = await this.connection.run('ask', key, (client) => client.type(name));
      return wrongType(name, key, type, cause);
    } catch {
      return error;
    }
  }
}
