import type { LockService } from '../../../libs/distributed-lock/src/lock/lock.service.js';
import type { Stage } from './stage.js';

/** A connection that was lost in the last fault has been replaced by then. */
const PATIENCE_MS = 15_000;

/**
 * docs/guarantees.md, liveness: once a store can be reached again, each process gets a lock that nobody has.
 */
export async function callInCalm({ actors, parts }: Stage): Promise<void> {
  const { kernel, history, backend } = parts;
  const waiting = new Set<string>();
  for (const { process, services } of actors) {
    if (process.state !== 'running') continue;
    process.receive(() => services.forEach((service, i) => call(service, `calm ${process.name} ${i}`)));
  }
  const call = (service: LockService, key: string): void => {
    waiting.add(key);
    const onEnd = () => waiting.delete(key);
    // A service that the plan has closed refuses.
    service.withLock(key, { waitMs: Infinity }, () => undefined).then(onEnd, onEnd);
  };
  const patienceMs = PATIENCE_MS + (backend.closedAfterCrashMs ?? 0);
  const until = kernel.now + patienceMs;
  await kernel.run(kernel.now + 1, () => false);
  await kernel.run(until, () => waiting.size === 0);
  for (const key of waiting)
    history.violate(
      'progress',
      `nobody has the key "${key}", and its process has not got it for ${patienceMs} ms`,
    );
}
