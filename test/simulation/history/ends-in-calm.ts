import type { CallOptions, Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { Actor, Stage } from './stage.js';

const SLACK_MS = 100;
/** A recheck must not be taken for a hand-off. */
const RECHECK_MS = 900;
const PATIENCE_MS = 15_000;
const MINIMUM_MS = 700;
/** Clocks differ by less than 1 %, and a moment is rounded to ms. */
const EARLIEST_MS = MINIMUM_MS * 0.99 - 2;

/**
 * How a hold can end beside other calls. A nested call that asks for a shorter minimum hold does not cut the one around it, and
 * a call that waits in the same process behind a lock which steps down gets an owner of its own when the lock is given back.
 */
export async function endsInCalm(stage: Stage): Promise<void> {
  const { kernel, handOffMs } = stage.parts;
  const mostMs = handOffMs + SLACK_MS;
  const [first, second] = stage.actors.filter(({ process }) => process.state === 'running');
  if (mostMs > RECHECK_MS || !first || !second) return;
  await nestedMinimum(stage, first, second, mostMs);
  await kernel.run(kernel.now + PATIENCE_MS);
  await behindDowngraded(stage, first, mostMs);
  await kernel.run(kernel.now + PATIENCE_MS);
}

async function nestedMinimum(stage: Stage, first: Actor, second: Actor, mostMs: number): Promise<void> {
  const { kernel, history } = stage.parts;
  const key = 'nested minimum';
  let heldAt = Infinity;
  let grantedAt = Infinity;
  ask(first, {
    key,
    options: { holdAtLeastMs: MINIMUM_MS },
    work: async () => {
      heldAt = kernel.now;
      await first.services[0]?.withLock(key, { holdAtLeastMs: 1 }, () => undefined);
    },
  });
  await kernel.run(kernel.now + PATIENCE_MS, () => heldAt < Infinity);
  // A service that the plan has closed refuses.
  if (heldAt === Infinity) return;
  const next = ask(second, { key, options: { waitMs: Infinity }, work: () => void (grantedAt = kernel.now) });
  await kernel.run(heldAt + EARLIEST_MS);
  if (grantedAt < Infinity)
    history.violate('minimum hold', `a nested call cuts a minimum hold of ${MINIMUM_MS} ms`);
  // The end of a minimum hold is found by a recheck.
  await kernel.run(heldAt + MINIMUM_MS + RECHECK_MS + 2 * mostMs, () => grantedAt < Infinity);
  if (grantedAt === Infinity && !next.isRefused)
    history.violate('hand-off', `a key whose minimum hold of ${MINIMUM_MS} ms is over stays taken`);
}

async function behindDowngraded(stage: Stage, first: Actor, mostMs: number): Promise<void> {
  const { kernel, history } = stage.parts;
  const key = 'behind a downgraded lock';
  let lock: Lock | undefined;
  let release = (): void => undefined;
  let isGranted = false;
  ask(first, {
    key,
    options: { mode: 'exclusive' },
    work: (own) => {
      lock = own;
      return new Promise((resolve) => (release = resolve));
    },
  });
  await kernel.run(kernel.now + PATIENCE_MS, () => lock !== undefined);
  if (!lock) return;
  const next = ask(first, {
    key,
    options: { mode: 'exclusive', waitMs: Infinity },
    work: () => void (isGranted = true),
  });
  await kernel.run(kernel.now + mostMs);
  const held: Lock = lock;
  first.process.receive(() => void held.downgrade().catch(() => undefined));
  await kernel.run(kernel.now + mostMs);
  if (isGranted) history.violate('exclusion', 'a writer enters beside one that has stepped down');
  first.process.receive(() => release());
  await kernel.run(kernel.now + 4 * mostMs, () => isGranted);
  if (!isGranted && !next.isRefused)
    history.violate(
      'hand-off',
      `a call behind a lock that has stepped down is not granted ${4 * mostMs} ms after its end`,
    );
}

interface Scene {
  readonly key: string;
  readonly options: CallOptions;
  readonly work: (lock: Lock) => Promise<void> | void;
}

function ask({ process, services: [service] }: Actor, { key, options, work }: Scene): { isRefused: boolean } {
  const state = { isRefused: false };
  process.receive(() => void service?.withLock(key, options, work).catch(() => (state.isRefused = true)));
  return state;
}
