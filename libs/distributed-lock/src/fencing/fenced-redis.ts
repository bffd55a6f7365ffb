import { describeGiven, describeMs } from '../options/describe-given.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { checkOptions, type OptionRules } from '../options/option-names.js';
import {
  assertAlone,
  assertFresh,
  assertToken,
  FenceMemory,
  NESTED_WRITES,
  type Fence,
  type NestedWrites,
} from './fence.js';
import { clusterPrefixOf, redisFenceKey } from './redis-fence-key.js';
import { evaluateBy, type NodeRedisScriptingClient, type ScriptingClient } from './scripting-client.js';

/** Options of `fencedRedis`. */
export interface FencedRedisOptions {
  /** How long a token is remembered after it was last raised, in ms; default seven days, `Infinity` for ever. */
  readonly keepMs?: number;
  /** Whether calls that share one lock, and so one token, may write; default `'allow'`. */
  readonly nested?: NestedWrites;
}

/** A word of a command after its key. */
export type RedisWord = string | number | Buffer;

const RULES: OptionRules<FencedRedisOptions> = {
  keepMs: [(value) => typeof value === 'number' && value >= 1, '1 ms or more', describeMs],
  nested: NESTED_WRITES,
};
const WEEK_MS = 7 * 24 * 3600 * 1000;

/** Lua passes no more than about 8000 words to a command, so a longer `HSET` is sent in parts. An even number. */
const MAX_WORDS = 7000;
/** JavaScript passes no more than about 100 000 words to a function, and node-redis passes them on through several. */
const MAX_WORDS_IN_PARTS = 20_000;

/** Raises the fence of a key, then runs the command on the key, if one is given. */
const FENCED = `
local seen = tonumber(redis.call('GET', KEYS[2]) or 0)
if tonumber(ARGV[1]) < seen then return { 0, string.format('%.0f', seen) } end
if ARGV[2] == '' then redis.call('SET', KEYS[2], ARGV[1])
else redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2]) end
if not ARGV[3] then return { 1 } end
if #ARGV - 3 <= ${MAX_WORDS} then return { 1, redis.call(ARGV[3], KEYS[1], unpack(ARGV, 4)) } end
local added = 0
for i = 4, #ARGV, ${MAX_WORDS} do
  added = added + redis.call('HSET', KEYS[1], unpack(ARGV, i, math.min(i + ${MAX_WORDS} - 1, #ARGV)))
end
return { 1, added }`;

/**
 * Writes to Redis that refuse a smaller fencing token than their key has seen.
 *
 * Each key has its fence beside it, in the same slot of a cluster: `nest_lock_fence:{key}`. One script compares, raises
 * the fence and writes. When Redis loses a fence, the next token starts a new one.
 */
export class FencedRedis extends FenceMemory {
  private readonly keep: string;
  private readonly nested: NestedWrites | undefined;
  private readonly prefix: string;
  private readonly evaluate: ReturnType<typeof evaluateBy>;

  /** The same as `fencedRedis`. */
  constructor(client: ScriptingClient | NodeRedisScriptingClient, options: FencedRedisOptions = {}) {
    super();
    checkOptions('fencedRedis', options, RULES);
    if (typeof client?.eval !== 'function') {
      throw new LockConfigurationError(
        `fencedRedis takes a client of ioredis or node-redis, which stays yours; it was given ${describeGiven(client)}.`,
      );
    }
    this.evaluate = evaluateBy(client);
    this.prefix = clusterPrefixOf(client);
    const { keepMs = WEEK_MS, nested } = options;
    this.nested = nested;
    this.keep = keepMs === Infinity ? '' : String(Math.ceil(keepMs));
  }

  /** @throws StaleTokenError when the key has seen a larger token; nothing is written then */
  async set(key: string, value: RedisWord, fence: Fence): Promise<void> {
    await this.call('SET', key, [value], fence);
  }

  /** @returns how many fields are new @throws StaleTokenError when the key has seen a larger token */
  async hset(key: string, fields: Readonly<Record<string, RedisWord>>, fence: Fence): Promise<number> {
    const words = Object.entries(fields).flat();
    return (await this.write(['HSET', ...words], key, fence)) as number;
  }

  /**
   * Runs any command whose only key is its first word, as `call('HINCRBY', 'goods:42', ['stock', -1], lock)`.
   *
   * @returns the command's reply
   * @throws StaleTokenError when the key has seen a larger token
   */
  call(command: string, key: string, words: readonly RedisWord[], fence: Fence): Promise<unknown> {
    return this.write([command, ...words], key, fence);
  }

  private async write(
    command: readonly [string, ...RedisWord[]],
    key: string,
    fence: Fence,
  ): Promise<unknown> {
    const [name, ...words] = command;
    const limit = name === 'HSET' ? MAX_WORDS_IN_PARTS : MAX_WORDS;
    if (words.length > limit) {
      throw new LockConfigurationError(
        `${name} of "${key}" has ${words.length} words after its key; at most ${limit} are allowed. Write it in several calls.`,
      );
    }
    assertAlone(fence, this.nested);
    const [isFresh, reply] = await this.run(key, fence.fencingToken, command);
    if (!isFresh) assertFresh(fence, Number(reply));
    return reply;
  }

  /** For reading under a lock: from now on `key` refuses all earlier holders. @throws StaleTokenError */
  async check(key: string, fence: Fence): Promise<void> {
    assertAlone(fence, this.nested);
    assertFresh(fence, await this.raise(key, fence.fencingToken));
  }

  /** Remembers `token` as `FenceMemory` does, in Redis. */
  async raise(key: string, token: number): Promise<number> {
    const [isFresh, seen] = await this.run(key, token);
    return isFresh ? token : Number(seen);
  }

  private async run(
    key: string,
    token: number,
    command: readonly RedisWord[] = [],
  ): Promise<[isFresh: boolean, reply?: unknown]> {
    assertToken(token);
    const keys = [key, redisFenceKey(key, this.prefix)];
    const reply = await this.evaluate(FENCED, keys, [token, this.keep, ...command]);
    const [isFresh, answer] = reply as unknown[];
    // A client may give numbers as text.
    return [Number(isFresh) === 1, answer];
  }
}

/**
 * Makes a `FencedRedis`, whose writes refuse a smaller fencing token than their key has seen.
 *
 * @throws LockConfigurationError for a client that is neither of ioredis nor of node-redis, and for wrong options
 */
export function fencedRedis(
  client: ScriptingClient | NodeRedisScriptingClient,
  options: FencedRedisOptions = {},
): FencedRedis {
  return new FencedRedis(client, options);
}
