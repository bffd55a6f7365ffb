import type { Actor, Stage } from './stage.js';

const FEW = 3;
/** More than a client of etcd has slots for messages. */
const MANY = 40;
/** One history of so many has many keys, as they take long. */
const MANY_EVERY = 8;
/** Several keys go into a few writes, and messages that were overwritten are made up for by asking. */
const HAND_OFFS = 2;
const SLACK_MS = 100;
/** A recheck must not be taken for a hand-off. */
const RECHECK_MS = 900;
const PATIENCE_MS = 15_000;

/**
 * docs/guarantees.md, liveness: each of several keys that one process releases in one turn is granted to another that waits for
 * all of them, however many messages it gets at once.
 */
export async function severalInCalm({ actors, parts }: Stage): Promise<void> {
  const { kernel, history, handOffMs, dice } = parts;
  const mostMs = HAND_OFFS * (handOffMs + SLACK_MS);
  const [holder, waiter] = actors.filter(({ process }) => process.state === 'running');
  if (mostMs > RECHECK_MS || !holder || !waiter) return;
  const count = dice.happens(1 / MANY_EVERY) ? MANY : FEW;
  const keys = Array.from({ length: count }, (_, i) => `several ${i}`);
  const releases: (() => void)[] = [];
  let isRefused = false;
  const onRefused = () => (isRefused = true);
  ask(holder, keys, () => new Promise<void>((resolve) => releases.push(resolve)), onRefused);
  await kernel.run(kernel.now + PATIENCE_MS, () => releases.length === count);
  let granted = 0;
  ask(waiter, keys, () => void (granted += 1), onRefused);
  await kernel.run(kernel.now + 2 * mostMs);
  holder.process.receive(() => releases.forEach((release) => release()));
  await kernel.run(kernel.now + mostMs, () => granted === count);
  // A service that the plan has closed refuses.
  if (granted < count && !isRefused)
    history.violate(
      'hand-off',
      `${count - granted} of ${count} keys that were released in one turn are not granted within ${mostMs} ms`,
    );
  await kernel.run(kernel.now + PATIENCE_MS, () => granted === count);
}

function ask(
  { process, services: [service] }: Actor,
  keys: readonly string[],
  work: () => unknown,
  onRefused: () => void,
): void {
  process.receive(() => {
    for (const key of keys) void service?.withLock(key, { waitMs: Infinity }, work).catch(onRefused);
  });
}
