import type { CallOptions } from '../../../libs/distributed-lock/src/lock/lock.js';
import { RECHECK_MS } from '../../../libs/distributed-lock/src/port/timing.js';
import type { Actor, Stage } from './stage.js';

const KEY = 'permits';
const SLACK_MS = 500;
const PATIENCE_MS = 15_000;
const OPTIONS: CallOptions = { permits: 2, waitMs: Infinity };

/**
 * docs/guarantees.md, permits: the permit of a holder that has died comes back with its lease, however long another one holds.
 *
 * @param leaseMs of a lock under the watchdog
 */
export async function deadPermitInCalm(stage: Stage, leaseMs: number): Promise<void> {
  const { kernel, history, handOffMs } = stage.parts;
  const [holder, goer] = stage.actors.filter(({ process }) => process.state === 'running');
  if (!holder || !goer || handOffMs > SLACK_MS) return;
  let inside = 0;
  let isRefused = false;
  const workUntilReleased = (): { readonly work: () => Promise<void>; readonly release: () => void } => {
    let release: () => void = () => undefined;
    const isReleased = new Promise<void>((resolve) => (release = resolve));
    const work = (): Promise<void> => {
      inside += 1;
      return isReleased;
    };
    return { work, release };
  };
  const [ofHolder, ofGoer] = [workUntilReleased(), workUntilReleased()];
  const ask = ({ process, services: [service] }: Actor, work: () => unknown): void =>
    process.receive(() => void service?.withLock(KEY, OPTIONS, work).catch(() => (isRefused = true)));
  ask(goer, ofGoer.work);
  ask(holder, ofHolder.work);
  await kernel.run(kernel.now + PATIENCE_MS, () => inside === 2 || isRefused);
  // One of the two closes. Without an end of its grace the other one would wait for its own work for ever.
  if (inside < 2) {
    goer.process.receive(ofGoer.release);
    return holder.process.receive(ofHolder.release);
  }
  stage.crash(goer);
  let isGranted = false;
  ask(holder, () => void (isGranted = true));
  await kernel.run(kernel.now + leaseMs + RECHECK_MS + SLACK_MS, () => isGranted || isRefused);
  if (!isGranted && !isRefused)
    history.violate('hand-off', 'the permit of one who died is not granted when its lease is over');
  holder.process.receive(ofHolder.release);
  await kernel.run(kernel.now + PATIENCE_MS);
}
