import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { MurLockModule, MurLockService } from 'murlock';

/** The settings of its README, without the log. @param {string} url */
const settings = (url) => ({
  redisOptions: { url },
  wait: 1000,
  maxAttempts: 3,
  logLevel: 'error',
  ignoreUnlockFail: false,
  failFastOnRedisError: false,
  blocking: false,
});

/** @param {string} url @param {number} leaseMs */
export async function open(url, leaseMs) {
  const module = MurLockModule.forRoot(settings(url));
  const app = await NestFactory.createApplicationContext(module, { logger: false });
  const locks = app.get(MurLockService);
  return {
    run: (key, work) => locks.runWithLock(key, leaseMs, async () => work()),
    isFree: (key) => locks.runWithLock(key, leaseMs, 1, async () => true).catch(() => false),
  };
}
