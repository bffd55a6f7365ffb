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
  /** How long Redis keeps the token of a key after the last write or check, in ms; default seven days, `Infinity` for ever. */
  readonly keepMs?: number;
  /** Whether calls that share one lock, and so one fencing token, may write; default `'allow'`. */
  readonly nested?: NestedWrites;
}

/** An argument of a Redis command behind its key. */
export type RedisWord = string | number | Buffer;

const RULES: OptionRules<FencedRedisOptions> = {
  keepMs: [(value) => typeof value === 'number' && value >= 1, '1 ms or more', describeMs],
  nested: NESTED_WRITES,
};
const WEEK_MS = 7 * 24 * 3600 * 1000;

/**
 * In a script, Lua passes at most about 8000 arguments to a command, so a longer `HSET` is split. Even, because fields and values
 * come in pairs.
 */
const MAX_WORDS = 7000;
/**
 * An `HSET` with more arguments than this is refused. JavaScript passes at most about 100 000 arguments to a function, and
 * node-redis passes them through several functions.
 */
const MAX_WORDS_IN_PARTS = 20_000;

/**
 * Script: refuses a token smaller than the fence of the key (KEYS[2]), otherwise stores it there and runs the command, if there
 * is one.
 */
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
 * Writes to Redis, and refuses a write whose fencing token is smaller than one that its key has seen.
 *
 * The largest token of a key is stored beside it under `nest_lock_fence:{key}`, in the same slot of a cluster. One script
 * compares the token, stores it and writes. If Redis loses that entry, the next token is stored as the first one.
 */
export class FencedRedis extends FenceMemory {
  private readonly keep: string;
  private readonly nested: NestedWrites | undefined;
  private readonly prefix: string;
  private readonly evaluate: ReturnType<typeof scriptRunner>;

  /** The same as `fencedRedis`. */
  constructor(client: ScriptingClient | NodeRedisScriptingClient, options: FencedRedisOptions = {}) {
    super();
    checkOptions('fencedRedis', options, RULES);
    if (typeof client?.eval !== 'function') {
      throw new LockConfigurationError(
        `fencedRedis takes a client of ioredis or node-redis, which stays yours; it was given ${describeGiven(client)}.`,
      );
    }
    this.evaluate = scriptRunner(client);
    this.prefix = clusterPrefixOf(client);
    const { keepMs = WEEK_MS, nested } = options;
    this.nested = nested;
    this.keep = keepMs === Infinity ? '' : String(Math.ceil(keepMs));
  }

  /**
   * `SET key value`.
   *
   * @throws StaleTokenError when the key has seen a larger token; nothing is written then
   */
  async set(key: string, value: RedisWord, fence: Fence): Promise<void> {
    await this.call('SET', key, [value], fence);
  }

  /**
   * `HSET key` with all fields.
   *
   * @returns how many fields are new
   * @throws StaleTokenError when the key has seen a larger token; nothing is written then
   */
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

  /**
   * For a read under a lock: from now on `key` refuses writes and checks of all earlier holders.
   *
   * @throws StaleTokenError when the key has seen a larger token
   */
  async check(key: string, fence: Fence): Promise<void> {
    assertAlone(fence, this.nested);
    assertFresh(fence, await this.raise(key, fence.fencingToken));
  }

  /** Stores `token` in Redis if it is the largest so far, as `FenceMemory` demands. */
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
    // Some clients return numbers as strings.
    return [Number(isFresh) === 1, answer];
  }
}

/**
 * Makes a `FencedRedis`. Its writes are refused if their fencing token is smaller than one that the key has seen.
 *
 * @throws LockConfigurationError for a client that is neither of ioredis nor of node-redis, and for wrong options
 */
export function fencedRedis(
  client: ScriptingClient | NodeRedisScriptingClient,
  options: FencedRedisOptions = {},
): FencedRedis {
  return new FencedRedis(client, options);
}

/** The members of a client from which its key prefix can be read. */
interface PrefixingClient {
  /** Only clients of ioredis have this property. */
  readonly isCluster?: boolean;
  readonly options?: { readonly keyPrefix?: string | Buffer };
  /** Only cluster clients of node-redis have this property. */
  readonly nodeByAddress?: unknown;
  readonly _keyPrefix?: string | Buffer;
}

/** The prefix that a cluster client puts before each key. The cluster hashes it along with the key. '' for any other client. */
function clusterPrefixOf(client: object): string {
  const { isCluster, options, nodeByAddress, _keyPrefix } = client as PrefixingClient;
  if (nodeByAddress) return String(_keyPrefix ?? '');
  return isCluster ? String(options?.keyPrefix ?? '') : '';
}

/**
 * The name under which the largest token of `key` is stored. With `prefix` before both, both names are in the same slot of a
 * cluster.
 *
 * @throws LockKeyError for a key with whose slot no other name can be built
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

/** The part of a name from which a cluster computes the slot: the text in the first braces, or `undefined` for the whole name. */
function hashedPart(name: string): string | undefined {
  const open = name.indexOf('{');
  const close = name.indexOf('}', open + 1);
  return open >= 0 && close > open + 1 ? name.slice(open + 1, close) : undefined;
}

/** The methods of an ioredis client, a `Redis` or a `Cluster`, that `fencedRedis` calls. The application closes the client. */
export interface ScriptingClient {
  /** Runs a Lua script. */
  eval(script: string, numberOfKeys: number, ...args: (string | number | Buffer)[]): Promise<unknown>;
}

/**
 * The methods of a node-redis client (of one server, Sentinel, a cluster, or a pool) that `fencedRedis` calls. The application closes
 * the client.
 */
export interface NodeRedisScriptingClient {
  /** Whether the client is connected. All node-redis clients have this property, and ioredis clients do not. */
  readonly isOpen: boolean;
  /** Runs a Lua script. */
  eval(script: string, given: { keys: string[]; arguments: (string | Buffer)[] }): Promise<unknown>;
}

type Evaluate = (
  script: string,
  keys: readonly string[],
  args: readonly (string | number | Buffer)[],
) => Promise<unknown>;

/** Returns a function that runs a script by this client. */
export function scriptRunner(client: ScriptingClient | NodeRedisScriptingClient): Evaluate {
  if (!('isOpen' in client))
    return (script, keys, args) => client.eval(script, keys.length, ...keys, ...args);
  const asWord = (arg: string | number | Buffer) => (typeof arg === 'number' ? String(arg) : arg);
  return (script, keys, args) => client.eval(script, { keys: [...keys], arguments: args.map(asWord) });
}
