import type { Claim } from '../../../port/claim.js';
import type { Clock } from '../../../time/clock.js';
import type { LockStoreError } from '../../../port/lock.errors.js';
import { evalSha, WireKeys, type Arguments } from './evalsha.js';
import type { Client, Command, EXPIRED, Priority } from '../connection/redis.command.js';
import type { RedisConnection } from '../connection/redis.connection.js';
import { isWrongType, wrongPart, wrongType } from '../connection/redis.errors.js';
import { checkReserved, checkSlot, permitsKey, redisKeys, type RedisKeys } from '../redis.keys.js';
import type { Script } from './scripts.js';

/** For a short key, some 800 bytes each. */
const MOST_KNOWN = 2048;

/** What a script is to do for a lock. */
export interface Call<Reply, Result> {
  readonly urgency: Priority;
  readonly key: string;
  /** It leaves at once, ahead of what follows in this turn of the event loop. */
  readonly isPressing?: boolean | undefined;
  /** Somebody goes on when it is answered: it leaves at once if the server has nothing of ours to do. */
  readonly isAwaited?: boolean | undefined;
  /** It may be executed twice: it is asked once more when a connection that had been idle has swallowed it. */
  readonly isRepeatable?: boolean | undefined;
  /** In which way it is taken; it decides where strangers are told. */
  readonly kind: Claim['kind'];
  /** Those of `key`, where they are not others. */
  readonly keys?: WireKeys;
  /** Made when the command is written, which may be later than it was asked for; may refuse by throwing. */
  args(): Arguments;
  /**
   * @param sentAt when it was written, on the clock of the store
   * @returns `LATE` to be written once more, with new arguments
   */
  read(reply: Reply, sentAt: number): Result | typeof EXPIRED;
  /** It has no answer, or a refusal. */
  onFailed?(error: LockStoreError): void;
}

type Reply = readonly [unknown, number, ...unknown[]];

interface Naming {
  readonly keyPrefix: string;
  readonly isCluster: boolean;
  readonly sharedTokens: boolean;
}

/** Runs the scripts: from a lock's key to its Redis keys, and from each reply the server's time. */
export class ScriptRunner {
  /** Of locks that may soon be asked for again. */
  private readonly known = { lock: keyMap(), exclusive: keyMap(), shared: keyMap(), permits: keyMap() };

  constructor(
    private readonly connection: RedisConnection,
    private readonly clock: Clock,
    private readonly naming: Naming,
  ) {}

  get sharesTokens(): boolean {
    return this.naming.sharedTokens;
  }

  /** @throws LockKeyError for a name that belongs to another lock, or that a cluster cannot take */
  lockName(key: string): string {
    const name = this.naming.keyPrefix + key;
    checkReserved(name);
    if (this.naming.isCluster) checkSlot(name);
    return name;
  }

  /** Throws as `lockName`. */
  keysOf(key: string, kind: Claim['kind']): WireKeys {
    const known = this.known[kind];
    let keys = known.get(key);
    if (!keys) {
      if (known.size === MOST_KNOWN) known.clear();
      known.set(key, (keys = new WireKeys(this.namesOf(key, kind))));
    }
    return keys;
  }

  /** For batches, which hardly come again; throws as `lockName`. */
  namesOf(key: string, kind: Claim['kind']): RedisKeys {
    return redisKeys(this.lockName(key), kind, this.naming.sharedTokens);
  }

  /** @throws LockStoreError */
  run<R extends Reply, Result>(script: Script<R>, call: Call<R, Result>): Promise<Result> {
    return this.connection.run(new ScriptCommand(script, call, this));
  }

  learn(serverMs: number, sentAt: number): void {
    if (serverMs > 0) this.connection.serverClock.learn(serverMs, sentAt, this.clock.now());
  }

  /** The classic mistake, a lock named like the data that it protects, is told as what it is. */
  async explain(
    client: Client,
    { key, kind }: { readonly key: string; readonly kind: Claim['kind'] },
    error: unknown,
  ): Promise<LockStoreError | undefined> {
    if (!isWrongType(error)) return undefined;
    const name = this.lockName(key);
    try {
      const found = await client.type(name);
      const asLock = kind === 'permits' ? 'string' : 'hash';
      const part =
        found === asLock || found === 'none' ? await this.partOfWrongType(client, key, kind) : undefined;
      if (part) return wrongPart({ name, key, ...part }, error);
      return wrongType({ name, key, found }, error);
    } catch {
      return undefined;
    }
  }

  private async partOfWrongType(
    client: Client,
    key: string,
    kind: Claim['kind'],
  ): Promise<{ readonly part: string; readonly found: string } | undefined> {
    const [name, line, info, token] = this.namesOf(key, kind);
    const parts = [
      [line, 'zset'],
      [info, 'hash'],
      [token, 'string'],
      ...(kind === 'permits' ? ([[permitsKey(name), 'zset']] as const) : []),
    ] as const;
    for (const [part, type] of parts) {
      const found = await client.type(part);
      if (found !== 'none' && found !== type) return { part, found };
    }
    return undefined;
  }
}

function keyMap(): Map<string, WireKeys> {
  return new Map();
}

class ScriptCommand<R extends Reply, Result> implements Command<R | number, Result> {
  readonly urgency: Priority;
  readonly key: string;
  readonly isPressing: boolean | undefined;
  readonly isAwaited: boolean | undefined;
  readonly isRepeatable: boolean | undefined;
  private readonly keys: WireKeys;
  private args: Arguments = [];

  constructor(
    private readonly script: Script<R>,
    private readonly call: Call<R, Result>,
    private readonly commands: ScriptRunner,
  ) {
    this.urgency = call.urgency;
    this.key = call.key;
    this.isPressing = call.isPressing;
    this.isAwaited = call.isAwaited;
    this.isRepeatable = call.isRepeatable;
    this.keys = call.keys ?? commands.keysOf(call.key, call.kind);
  }

  /** By its hash. */
  send(client: Client): Promise<R> {
    const { keys, script } = this;
    this.args = this.call.args();
    return evalSha(client, script.sha, keys, this.args) as Promise<R>;
  }

  /** In full, where the server does not know it any more. */
  sendAgain(client: Client, error: unknown): Promise<R> | undefined {
    const { script, args } = this;
    const { names } = this.keys;
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) return undefined;
    return client.eval(script.lua, names.length, ...names, ...args) as Promise<R>;
  }

  read(answer: R | number, sentAt: number): Result | typeof EXPIRED {
    const reply =
      typeof answer === 'number' && this.script.inFull ? this.script.inFull(answer) : (answer as R);
    this.commands.learn(reply[1], sentAt);
    return this.call.read(reply, sentAt);
  }

  explain(client: Client, error: unknown): Promise<LockStoreError | undefined> {
    return this.commands.explain(client, this.call, error);
  }

  onFailed(error: LockStoreError): void {
    this.call.onFailed?.(error);
  }
}
