import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import { LockLostError, LockNotHeldError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { History } from './history.js';

/** Far longer than what the call had, so that the servers would show a lease that was extended after its release. */
const EXTENDED_MS = 600_000;

/**
 * Calls every method of a lock that its caller has released, and checks that each rejects with the documented error. An extension that
 * reached the store would keep the key from all others.
 */
export async function useAfterRelease(lock: Lock, name: string, history: History): Promise<void> {
  const say = (what: string): void =>
    history.violate('errors', `${name} uses its lock of ${lock.keys.join('+')} after its release: ${what}`);
  if (lock.validForMs !== 0) say(`it is valid for ${lock.validForMs} ms`);
  if (lock.contended) say('others wait for it');
  if (lock.signal.aborted && !(lock.signal.reason instanceof LockLostError)) say('its signal has aborted');
  let hasRun = false;
  const uses: readonly (readonly [what: string, use: () => unknown])[] = [
    ['assertHeld()', () => lock.assertHeld()],
    ['extend()', () => lock.extend(EXTENDED_MS)],
    ['downgrade()', () => lock.downgrade()],
    ['run()', () => lock.run(() => void (hasRun = true))],
  ];
  for (const [what, use] of uses) {
    const error = await errorOf(use);
    if (!(error instanceof LockNotHeldError || error instanceof LockLostError))
      say(`${what} says ${String(error)}`);
  }
  if (hasRun) say('run() has run the work');
}

async function errorOf(use: () => unknown): Promise<unknown> {
  try {
    await use();
    return undefined;
  } catch (error) {
    return error;
  }
}
