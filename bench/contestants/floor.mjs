// The least that a lock on Redis costs: SET NX PX, and a delete that checks the owner. It cannot wait.
import { Redis } from 'ioredis';

const LEASE_MS = 30_000;
const DELETE_OWN = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

/** @type {import('./contestant.d.mts').OpenContestant} */
export async function open(url) {
  const client = new Redis(url);
  client.defineCommand('deleteOwn', { numberOfKeys: 1, lua: DELETE_OWN });
  await client.ping();
  let calls = 0;
  return {
    async run(key, work) {
      const owner = `${process.pid}:${++calls}`;
      if ((await client.set(key, owner, 'PX', LEASE_MS, 'NX')) === null) throw new Error(`${key} is taken`);
      try {
        return await work();
      } finally {
        await client.deleteOwn(key, owner);
      }
    },
  };
}
