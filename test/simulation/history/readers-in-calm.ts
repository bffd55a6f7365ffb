import { NAME_WITHIN_MS } from '../../../libs/distributed-lock/src/lock/core/holder-directory.js';
import type { CallOptions, Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { Actor, Stage } from './stage.js';

const KEY = 'readers';
const SLACK_MS = 100;
/** A recheck must not be taken for a hand-off. */
const RECHECK_MS = 900;
const PATIENCE_MS = 15_000;

/**
 * docs/guarantees.md, readers: a writer that steps down lets in the readers that wait, at once. A writer that waits keeps later
 * readers out, and they enter at once when it has given up. On a store with sessions nothing is said of how soon.
 */
export async function readersInCalm(stage: Stage): Promise<void> {
  const { kernel, history, handOffMs, hasSessions, givesNoTickets } = stage.parts;
  const mostMs = handOffMs + SLACK_MS;
  const [first, second, third] = stage.actors.filter(({ process }) => process.state === 'running');
  if (hasSessions || mostMs > RECHECK_MS || !first || !second || !third) return;
  const writer = ask(first, { mode: 'exclusive', waitMs: Infinity });
  await kernel.run(kernel.now + PATIENCE_MS, () => writer.lock !== undefined);
  // A service that the plan has closed refuses.
  if (!writer.lock) return;
  const reader = ask(second, { mode: 'shared', waitMs: Infinity });
  await kernel.run(kernel.now + 2 * mostMs);
  const { lock } = writer;
  first.process.receive(() => void lock.downgrade().catch(() => undefined));
  await kernel.run(kernel.now + mostMs, () => reader.isOver);
  if (!reader.isOver && !reader.isRefused)
    history.violate('hand-off', `a reader has not entered ${mostMs} ms after the writer stepped down`);

  const nextWriter = ask(third, { mode: 'exclusive', waitMs: 4 * mostMs });
  await kernel.run(kernel.now + mostMs);
  const hasty = ask(second, { mode: 'shared', waitMs: 0 });
  await kernel.run(kernel.now + mostMs);
  const later = ask(second, { mode: 'shared', waitMs: Infinity });
  await kernel.run(
    kernel.now + PATIENCE_MS,
    () => nextWriter.isRefused || nextWriter.isOver || later.isOver || hasty.isOver,
  );
  // Its process may still ask who holds the key, for the message of the error.
  await kernel.run(kernel.now + NAME_WITHIN_MS, () => nextWriter.isRefused);
  if (!nextWriter.isRefused && !nextWriter.isOver && !givesNoTickets)
    history.violate(
      'order',
      `a ${hasty.isOver ? 'reader that does not wait' : 'later reader'} overtakes a writer that waits`,
    );
  await kernel.run(kernel.now + mostMs, () => later.isOver);
  if (nextWriter.isRefused && !later.isOver && !later.isRefused)
    history.violate('hand-off', `a reader has not entered ${mostMs} ms after the writer before it gave up`);
  first.process.receive(() => writer.release());
  await kernel.run(kernel.now + PATIENCE_MS);
}

/** The first holds until it is told; readers that come later are in and out. */
function ask({ process, services: [service] }: Actor, options: CallOptions) {
  const state = {
    lock: undefined as Lock | undefined,
    isOver: false,
    isRefused: false,
    release: (): void => undefined,
  };
  const work = (lock: Lock): Promise<void> | undefined => {
    state.isOver = true;
    state.lock = lock;
    if (options.mode === 'shared' || options.waitMs !== Infinity) return undefined;
    return new Promise((resolve) => (state.release = resolve));
  };
  const onRefused = () => (state.isRefused = true);
  process.receive(() => void service?.withLock(KEY, options, work).catch(onRefused));
  return state;
}
