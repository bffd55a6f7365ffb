import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { MurLockModule, MurLockService } from 'murlock';

/** The lease of its README, in ms. */
const LEASE_MS = 5000;

/** The settings of its README, without the log, which would write a line for each lock. @param {string} url */
const settings = (url) => ({
  redisOptions: { url },
  wait: 1000,
  maxAttempts: 3,
  logLevel: 'error',
  ignoreUnlockFail: false,
  failFastOnRedisError: false,
  blocking: false,
});

/** @type {import('../contestants/contestant.d.mts').OpenContestant} */
export async function open(url) {
  const app = await NestFactory.createApplicationContext(MurLockModule.forRoot(settings(url)), {
    logger: false,
  });
  const locks = app.get(MurLockService);
  return { run: (key, work) => locks.runWithLock(key, LEASE_MS, async () => work()) };
}
