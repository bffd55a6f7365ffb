import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { Stage } from './stage.js';

const KEY = 'forced';
const SLACK_MS = 100;
/** A recheck must not be taken for a hand-off. */
const RECHECK_MS = 900;
const PATIENCE_MS = 15_000;

/**
 * docs/api.md, forceRelease: a holder that is gone loses its lock to the next one that waits, and one that is stopped is told so as
 * soon as it goes on, not by its next renewal.
 *
 * @param leaseMs of a lock under the watchdog
 */
export async function forcedInCalm({ actors, parts }: Stage, leaseMs: number): Promise<void> {
  const { kernel, history, handOffMs } = parts;
  const mostMs = handOffMs + SLACK_MS;
  const [holder, waiter, operator] = actors.filter(({ process }) => process.state === 'running');
  const renewsAfterMs = leaseMs / 3;
  if (mostMs > RECHECK_MS || 4 * mostMs > renewsAfterMs || !holder || !waiter || !operator) return;
  let lock: Lock | undefined;
  let isTold = false;
  let isGranted = false;
  // A service that the plan has closed refuses.
  let isRefused = false;
  const onRefused = (): void => void (isRefused = true);
  let giveBack = (): void => undefined;
  const work = (own: Lock): Promise<void> => {
    lock = own;
    return new Promise((resolve) => {
      giveBack = resolve;
      own.signal.addEventListener('abort', () => {
        isTold = true;
        resolve();
      });
    });
  };
  const ask = ({ process, services: [service] }: typeof holder, run: (own: Lock) => unknown): void =>
    process.receive(() => void service?.withLock(KEY, { waitMs: Infinity }, run).catch(onRefused));
  ask(holder, work);
  await kernel.run(kernel.now + PATIENCE_MS, () => lock !== undefined);
  if (!lock) return;
  ask(waiter, () => void (isGranted = true));
  await kernel.run(kernel.now + mostMs);
  holder.process.stop(mostMs);
  operator.process.receive(() => void operator.services[0]?.forceRelease(KEY).catch(onRefused));
  await kernel.run(kernel.now + mostMs - 1);
  const isPassedOn = isGranted || isRefused;
  await kernel.run(kernel.now + mostMs, () => isTold);
  if (!isPassedOn)
    history.violate('hand-off', `a lock that was taken by force is not granted within ${mostMs} ms`);
  if (!isTold && !isRefused)
    history.violate('loss', `who lost a lock by force is not told within ${mostMs} ms`);
  holder.process.receive(giveBack);
  await kernel.run(kernel.now + PATIENCE_MS + leaseMs);
}
