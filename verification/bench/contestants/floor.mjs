// The least that a lock on Redis costs: SET NX PX, and a delete that checks the owner. It cannot wait.
import { bareLock } from './bare-lock.mjs';
import { connectRedis } from './store-of.mjs';

const LEASE_MS = 30_000;
const DELETE_OWN = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

/** @type {import('./contestant.d.mts').OpenContestant} */
export async function open(url) {
  const client = connectRedis(url);
  client.defineCommand('deleteOwn', { numberOfKeys: 1, lua: DELETE_OWN });
  await client.ping();
  return bareRedisLock(client, (key, owner) => client.deleteOwn(key, owner));
}

/** @param {import('ioredis').Redis | import('ioredis').Cluster} client @param {(key: string, owner: string) => Promise<unknown>} deleteOwn */
export function bareRedisLock(client, deleteOwn) {
  return bareLock([client], {
    take: async (_, [key, owner]) => (await client.set(key, owner, 'PX', LEASE_MS, 'NX')) !== null,
    giveBack: (_, [key, owner]) => deleteOwn(key, owner),
  });
}
