import { LockConfigurationError, LockKeyError } from '../port/lock.errors.js';
import { checkOptions, describeGiven, describeMs, type OptionRules } from '../port/option-checks.js';
import {
  assertAlone,
  assertFresh,
  assertToken,
  type Fence,
  FenceMemory,
  NESTED_WRITES,
  type NestedWrites,
} from './fence.js';

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

/** The part of a client that says what it puts before the keys of a command. */
interface PrefixingClient {
  /** Only clients of ioredis have it. */
  readonly isCluster?: boolean;
  readonly options?: { readonly keyPrefix?: string | Buffer };
  /** Only cluster clients of node-redis have it. */
  readonly nodeByAddress?: unknown;
  readonly _keyPrefix?: string | Buffer;
}

/** The text that a client of a cluster puts before each key. It is part of what the cluster hashes. '' for any other client. */
function clusterPrefixOf(client: object): string {
  const { isCluster, options, nodeByAddress, _keyPrefix } = client as PrefixingClient;
  if (nodeByAddress) return String(_keyPrefix ?? '');
  return isCluster ? String(options?.keyPrefix ?? '') : '';
}

/**
 * The name of the fence of `key`. After the client has put `prefix` before both names, they are in the same slot.
 *
 * @throws LockKeyError for a key whose slot no other name can have
 */
function redisFenceKey(key: string, prefix: string): string {
  const hashed = hashedPart(key);
  const tag = hashed === undefined ? '' : `:${key}`;
  const names = [`nest_lock_fence:{${hashed ?? key}}${tag}`, `nest_lock_fence:{${prefix}${key}}`];
  const slotOf = (name: string) => hashedPart(prefix + name) ?? prefix + name;
  const name = names.find((each) => slotOf(each) === slotOf(key));
  if (name !== undefined && (hashed !== undefined || !key.includes('}'))) return name;
  const why =
    key.includes('}') || prefix === ''
      ? 'has a closing brace but no hash tag'
      : `has no hash tag, and the keyPrefix "${prefix}" of the client has a brace`;
  throw new LockKeyError(`"${key}" ${why}: no fence can lie in its slot.`, key);
}

/** A cluster hashes the text in the first braces; if there is none, the whole name. */
function hashedPart(name: string): string | undefined {
  const open = name.indexOf('{');
  const close = name.indexOf('}', open + 1);
  return open >= 0 && close > open + 1 ? name.slice(open + 1, close) : undefined;
}

/** The part of a client of ioredis that is used: of a `Redis` or a `Cluster`. You close it. */
export interface ScriptingClient {
  /** Runs a Lua script. */
  eval(script: string, numberOfKeys: number, ...args: (string | number | Buffer)[]): Promise<unknown>;
}

/** The part of a client of node-redis that is used: of one server, of Sentinels, of a cluster or of a pool. You close it. */
export interface NodeRedisScriptingClient {
  /** Whether it has connected. All clients of node-redis have it, and those of ioredis do not. */
  readonly isOpen: boolean;
  /** Runs a Lua script. */
  eval(script: string, given: { keys: string[]; arguments: (string | Buffer)[] }): Promise<unknown>;
}

type Evaluate = (
  script: string,
  keys: readonly string[],
  args: readonly (string | number | Buffer)[],
) => Promise<unknown>;

/** How `client` runs a script. */
function evaluateBy(client: ScriptingClient | NodeRedisScriptingClient): Evaluate {
  if (!('isOpen' in client))
    return (script, keys, args) => client.eval(script, keys.length, ...keys, ...args);
  const asWord = (arg: string | number | Buffer) => (typeof arg === 'number' ? String(arg) : arg);
  return (script, keys, args) => client.eval(script, { keys: [...keys], arguments: args.map(asWord) });
}
