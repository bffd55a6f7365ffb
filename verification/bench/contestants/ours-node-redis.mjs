// withLock on a store that talks by node-redis, where the others talk by ioredis.
import { LockService } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { createClient } from 'redis';

/** @type {import('./contestant.d.mts').OpenContestant} */
export async function open(url, options) {
  const locks = new LockService({ ...options, store: redisStore(createClient({ url })) });
  await locks.withLock('open', () => undefined);
  return { run: (key, work) => locks.withLock(key, work) };
}
