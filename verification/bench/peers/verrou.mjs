import { Verrou } from '@verrou/core';
import { redisStore } from '@verrou/core/drivers/redis';
import { Redis } from 'ioredis';

/** @type {import('../contestants/contestant.d.mts').OpenContestant} */
export async function open(url) {
  const connection = new Redis(url);
  await connection.ping();
  const verrou = new Verrou({ default: 'redis', stores: { redis: { driver: redisStore({ connection }) } } });
  return { run: (key, work) => verrou.createLock(key).run(async () => work()) };
}
