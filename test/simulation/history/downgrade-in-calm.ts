import type { CallOptions, Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { Actor, Stage } from './stage.js';

const SLACK_MS = 100;
/** A recheck must not be taken for a hand-off. */
const RECHECK_MS = 900;
const PATIENCE_MS = 15_000;

/**
 * docs/guarantees.md, readers: a writer that waits behind one of its own process joins the queue when that one steps down, before those
 * who ask later.
 */
export async function downgradeInCalm(stage: Stage): Promise<void> {
  const { handOffMs, givesNoTickets } = stage.parts;
  const [first, second] = stage.actors.filter(({ process }) => process.state === 'running');
  if (givesNoTickets || handOffMs + SLACK_MS > RECHECK_MS || !first || !second) return;
  await behindOneThatStepsDown(stage, first, second);
}

async function behindOneThatStepsDown({ parts }: Stage, first: Actor, second: Actor): Promise<void> {
  const { kernel, history, handOffMs } = parts;
  const queuedMs = 2 * (handOffMs + SLACK_MS);
  const key = 'behind one that steps down';
  const writers: string[] = [];
  let lock: Lock | undefined;
  let release = (): void => undefined;
  ask(first, key, { mode: 'exclusive', waitMs: Infinity }, (held) => {
    lock = held;
    return new Promise<void>((resolve) => (release = resolve));
  });
  await kernel.run(kernel.now + PATIENCE_MS, () => lock !== undefined);
  // A service that the plan has closed refuses.
  if (!lock) return;
  const write = (name: string) => () => void writers.push(name);
  ask(first, key, { mode: 'exclusive', waitMs: Infinity }, write('first'));
  await kernel.run(kernel.now + queuedMs);
  first.process.receive(() => void lock?.downgrade().catch(() => undefined));
  await kernel.run(kernel.now + 2 * queuedMs);
  ask(second, key, { mode: 'exclusive', waitMs: Infinity }, write('second'));
  await kernel.run(kernel.now + queuedMs);
  first.process.receive(() => release());
  await kernel.run(kernel.now + PATIENCE_MS, () => writers.length === 2);
  if (writers[0] === 'second')
    history.violate('order', 'a later writer overtakes one that waits behind a lock that was downgraded');
}

function ask(
  { process, services: [service] }: Actor,
  key: string,
  options: CallOptions,
  work: (lock: Lock) => unknown,
): void {
  process.receive(() => void service?.withLock(key, options, work).catch(() => undefined));
}
