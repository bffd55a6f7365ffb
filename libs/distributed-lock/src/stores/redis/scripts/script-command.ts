import type { Claim } from '../../../port/claim.js';
import { RedisCommand, type Client, type EXPIRED } from '../connection/redis.command.js';
import { LockStoreError } from '../../../port/lock.errors.js';
import { asStoreError, isDenied } from '../connection/redis.errors.js';
import { evalSha, type Arguments, type WireKeys } from './evalsha.js';
import type { ScriptContext } from './script-context.js';
import type { Script } from './scripts.js';
import { explainWrongType } from './wrong-type.js';

const TOO_OLD = 'Redis refused: it does not know SET … GET. Locks need Redis 6.2 or later.';

export type ScriptReply = readonly [kind: unknown, now: number, ...unknown[]];

/** The lock that a script is run for, in messages. */
interface Lock {
  readonly key: string;
  /** The kind of claim, which also decides the channel on which foreign clients learn of a release. */
  readonly kind: Claim['kind'];
}

/** A command that runs a script for a lock. */
export abstract class ScriptCommand<R extends ScriptReply, Result> extends RedisCommand<Result> {
  readonly key: string;
  protected readonly kind: Claim['kind'];
  private lastArgs: Arguments = [];

  /**
   * @param keys those of the lock, where they are not others
   * @throws LockKeyError for a key that a cluster cannot take
   */
  constructor(
    private readonly script: Script<R>,
    protected readonly context: ScriptContext,
    { key, kind }: Lock,
    private readonly keys: WireKeys = context.keysOf(key, kind),
  ) {
    super();
    this.key = key;
    this.kind = kind;
  }

  /** Made when the command is written, maybe long after its caller asked. May refuse, by throwing. */
  protected abstract args(): Arguments;
  protected abstract onReply(reply: R): Result | typeof EXPIRED;

  send(client: Client): Promise<unknown> {
    this.lastArgs = this.args();
    return evalSha(client, this.script.sha, this.keys, this.lastArgs);
  }

  read(value: unknown, receivedAt: number): Result | typeof EXPIRED {
    const { inFull } = this.script;
    const reply = typeof value === 'number' && inFull ? inFull(value) : (value as R);
    this.context.onServerTime(reply[1], this.sent, receivedAt);
    return this.onReply(reply);
  }

  /** Sends the script itself to a server that does not know it. Explains what else the server has refused. */
  override async recover(client: Client, error: unknown): Promise<unknown> {
    const { context, key, kind } = this;
    if (error instanceof Error && error.message.startsWith('NOSCRIPT')) {
      const { names } = this.keys;
      return client.eval(this.script.lua, names.length, ...names, ...this.lastArgs);
    }
    if (isDenied(error)) throw context.rights.refusal(error, key);
    if (isTooOld(error)) throw new LockStoreError(TOO_OLD, key, 'refused', { cause: error });
    const names = context.namesOf(key, kind);
    const explained = await explainWrongType(client, { key, kind, names }, error).catch(() => undefined);
    throw explained ?? asStoreError(error, key);
  }
}

/** Redis learned `SET … GET` in 6.2. An older one does not understand its last word. */
function isTooOld(error: unknown): boolean {
  return error instanceof Error && error.message.includes('syntax error');
}
