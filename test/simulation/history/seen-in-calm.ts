import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { LockLostError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { Stage } from './stage.js';

const SLACK_MS = 100;
const PATIENCE_MS = 15_000;
/** A back end that cannot say how long it takes leaves this much. */
const MAX_HAND_OFF_MS = 1000;
/** How long after the holder has begun to release the operator answers yes, as a share of a hand-off. */
const ANSWERED_AFTER = [0, 0.3, 0.7, 1.5];

/**
 * docs/recipes/stuck-lock.md: an operator is shown the holder, which releases while the operator thinks. The release by force comes
 * before, while or after the next one gets the lock, which keeps it.
 */
export async function seenInCalm({ actors, parts }: Stage): Promise<void> {
  const { kernel, history } = parts;
  const handOffMs = Math.min(parts.handOffMs, MAX_HAND_OFF_MS);
  const [holder, waiter, operator] = actors.filter(({ process }) => process.state === 'running');
  if (!holder || !waiter || !operator) return;
  const ask = ({ process, services: [service] }: typeof holder, key: string, run: (own: Lock) => unknown) =>
    process.receive(() => void service?.withLock(key, { waitMs: Infinity }, run).catch(() => undefined));
  for (const [i, share] of ANSWERED_AFTER.entries()) {
    const key = `seen ${i}`;
    let seen: readonly string[] | undefined;
    const [first, next] = [heldUntilEnded(), heldUntilEnded()];
    ask(holder, key, first.run);
    await kernel.run(kernel.now + PATIENCE_MS, () => first.lock !== undefined);
    ask(waiter, key, next.run);
    const [service] = operator.services;
    operator.process.receive(() => {
      service?.inspect(key).then(
        (found) => (seen = found?.holders),
        () => undefined,
      );
    });
    await kernel.run(kernel.now + PATIENCE_MS, () => seen !== undefined);
    holder.process.receive(first.end);
    // A service that the plan has closed does none of this.
    if (!first.lock || !seen || seen.length !== 1) {
      // A grace without an end would wait for the next holder.
      await kernel.run(kernel.now + handOffMs + SLACK_MS);
      waiter.process.receive(next.end);
      continue;
    }
    await kernel.run(kernel.now + share * handOffMs);
    const owner = seen;
    operator.process.receive(() => void service?.forceRelease(key, { owner }).catch(() => undefined));
    await kernel.run(kernel.now + PATIENCE_MS, () => next.lock !== undefined);
    await kernel.run(kernel.now + handOffMs + SLACK_MS);
    // A lease that runs out, as where a keep-alive comes late, is no force.
    if (next.lock?.signal.aborted && (next.lock.signal.reason as LockLostError).reason !== 'expired')
      history.violate(
        'force',
        `who got "${key}" next lost it to a release by force that named the one before`,
      );
    waiter.process.receive(next.end);
    await kernel.run(kernel.now + handOffMs + SLACK_MS);
  }
}

function heldUntilEnded() {
  const held = {
    lock: undefined as Lock | undefined,
    end: (): void => undefined,
    run: (own: Lock): Promise<void> => {
      held.lock = own;
      return new Promise((resolve) => (held.end = resolve));
    },
  };
  return held;
}
