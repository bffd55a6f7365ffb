// withLock, which @Locked calls. The work's result does not wait for the reply to the release.
import { LockService } from 'nestjs-distributed-lock';
import { storeOf } from './store-of.mjs';

/** @type {import('./contestant.d.mts').OpenContestant} */
export async function open(url, options) {
  const locks = new LockService({ ...options, store: await storeOf(url) });
  await locks.withLock('open', () => undefined);
  return { run: (key, work) => locks.withLock(key, work), keep: (key) => locks.acquire(key) };
}
