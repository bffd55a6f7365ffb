import {
  type NodeRedisScriptingClient,
  scriptRunner,
  type ScriptingClient,
} from '../fencing/fenced-redis.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { describeGiven } from '../port/option-checks.js';
import type { ResultStore } from './results.js';

/** The value of a key is the token, a space and the text of the result. Redis drops it when its time is over. */
const WRITE = `
local stored = redis.call('GET', KEYS[1])
if stored and tonumber(string.match(stored, '^%d+')) > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3])
return 1`;
const READ = `return redis.call('GET', KEYS[1])`;
const REMOVE = `return redis.call('DEL', KEYS[1])`;

/**
 * Stores results in Redis, each as one string under `nest_lock_once:` and the key.
 *
 * Results are as safe as this Redis: a failover may lose the newest ones, and their work then runs again. If that must not happen,
 * use `sqlResults` and `attempt.rememberIn`.
 *
 * @param client of ioredis or node-redis; the application closes it
 * @throws LockConfigurationError for anything else
 */
export function redisResults(client: ScriptingClient | NodeRedisScriptingClient): ResultStore {
  if (typeof client?.eval !== 'function') {
    throw new LockConfigurationError(
      `redisResults takes a client of ioredis or node-redis, which stays yours; it was given ${describeGiven(client)}.`,
    );
  }
  const run = scriptRunner(client);
  const keysOf = (key: string) => [`nest_lock_once:${key}`];
  return {
    async read(key) {
      const stored = await run(READ, keysOf(key), []);
      if (stored === null || stored === undefined) return undefined;
      // A client of node-redis may give texts as a `Buffer`, by its `typeMapping`.
      const [, token = '', text = ''] = /^(\d+) (.*)$/s.exec((stored as string | Buffer).toString()) ?? [];
      return { token: Number(token), text };
    },
    async write(key, { token, text }, keepForMs) {
      const reply = await run(WRITE, keysOf(key), [token, text, Math.ceil(keepForMs)]);
      return Number(reply) === 1;
    },
    async remove(key) {
      await run(REMOVE, keysOf(key), []);
    },
  };
}
