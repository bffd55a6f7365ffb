import type { ClockReading } from '../common/clock.js';
import { isPromiseLike } from '../common/promises.js';
import { runHolding } from './core/async-context.js';
import type { HeldLock } from './core/held-lock.js';
import type { Lock, WithLockOptions } from './lock.js';
import { discardStream, holdStream, streamKindOf } from './streams/held-stream.js';

/** Work to do under a lock. */
export type Work<T> = (lock: Lock) => T | Promise<T>;

/**
 * Runs `work` in a flow that has `lock`, and releases the lock when the work has ended. Settles as `work` does.
 *
 * Not an async function, so that it creates no promise for synchronous work, and only one for other work.
 *
 * @throws LockLostError if the work has succeeded and the lock was lost, unless `onLost` is `'ignore'`
 */
export function runUnder<T>(lock: HeldLock, { onLost }: WithLockOptions, work: Work<T>): T | PromiseLike<T> {
  let result: T | PromiseLike<T>;
  try {
    result = runHolding(lock, work);
    if (isPromiseLike(result)) {
      return Promise.resolve(result).then(
        (value) => end(lock, onLost, value),
        (error) => fail(lock, error),
      );
    }
  } catch (error) {
    return fail(lock, error);
  }
  return end(lock, onLost, result);
}

/** Releases after the work has failed. The caller gets the work's error, whatever happens to the release. */
function fail(lock: HeldLock, error: unknown): never {
  lock.releaseInBackground();
  throw error;
}

/** Called when the work has ended with `result`. If it is in doubt whether the lock was lost by then, asks the store first. */
function end<T>(lock: HeldLock, onLost: WithLockOptions['onLost'], result: T): T | PromiseLike<T> {
  const endedAt = lock.readClocks();
  if (!lock.isInDoubt(endedAt)) return conclude(lock, onLost, result, endedAt);
  return lock.whenSure().then(() => conclude(lock, onLost, result));
}

/**
 * Returns the result and releases, or lets a result that is a stream keep the lock until it ends.
 *
 * @throws LockLostError if the lock was lost before `endedAt`; without `endedAt`, if it is lost now
 */
function conclude<T>(
  lock: HeldLock,
  onLost: WithLockOptions['onLost'],
  result: T,
  endedAt?: ClockReading,
): T {
  let isKept = false;
  try {
    const loss = lock.noticeLoss(endedAt);
    if (loss && onLost !== 'ignore') {
      discardStream(result);
      throw loss;
    }
    if (!streamKindOf(result)) return result;
    const held = holdStream(result, lock, {
      where: `The work under "${lock.key}"`,
      readBy: 'caller',
      onLost,
      onEnd: () => lock.releaseInBackground(),
    });
    isKept = held !== undefined;
    return held ? (held.value as T) : result;
  } finally {
    // Not awaited, because the outcome of the release must not replace that of the work. Failures are events.
    if (!isKept) lock.releaseInBackground(endedAt);
  }
}
