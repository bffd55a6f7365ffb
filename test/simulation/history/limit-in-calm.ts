import { LockWaitTimeoutError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { CallOptions, Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { Actor, Stage } from './stage.js';

const KEY = 'limited';
const PATIENCE_MS = 15_000;
/** By then the store has answered, and the holder knows that others wait. */
const ANSWERED_MS = 3000;
/** A call that waits needs so many: for sessions, a reading and writes. */
const ROUND_TRIPS = 4;
/** One that is left in the queue is granted the lock for a second. */
const FREE_WITHIN_MS = 900;

/**
 * docs/guarantees.md, liveness: behind `maxWaiting` others a call is refused, whichever process it is of, and leaves nothing. Behind
 * fewer it waits.
 */
export async function limitInCalm({ actors, parts }: Stage): Promise<void> {
  const { kernel, history, roundTripMs, givesNoTickets } = parts;
  const [holder, other] = actors.filter(({ process }) => process.state === 'running');
  if (!holder || !other || ROUND_TRIPS * roundTripMs > ANSWERED_MS) return;
  const held = ask(holder, {});
  await kernel.run(kernel.now + PATIENCE_MS, () => held.isOver);
  if (!held.lock) return;
  const first = ask(other, { maxWaiting: 1 });
  await kernel.run(kernel.now + ANSWERED_MS, () => first.isOver);
  // A service that the plan has closed refuses, or its session is over.
  if (first.isOver && first.waiting === undefined) {
    // A service whose shutdown waits for ever would wait for these locks.
    for (const { lock } of [held, first]) if (lock) await release(holder, lock);
    return;
  }
  const refused = {
    'a call of the holder': ask(holder, { maxWaiting: 1 }),
    'a call behind one of its process': ask(other, { maxWaiting: 1 }),
    'a call with another lease': ask(other, { maxWaiting: 1, leaseMs: 5000 }),
  };
  const second = ask(other, { maxWaiting: 2 });
  await kernel.run(kernel.now + ANSWERED_MS, () => false);
  // A node of a quorum may count another of these calls, which asked at the same moment and is refused as well.
  const most = givesNoTickets ? 2 : 1;
  for (const [who, { waiting = 0 }] of Object.entries(refused))
    if (waiting < 1 || waiting > most)
      history.violate('refusal', `${who} is told that ${waiting} wait, and maxWaiting is 1`);
  for (const { waiting } of [first, second])
    if (waiting !== undefined)
      history.violate('refusal', `a call is refused because ${waiting} wait, and more may`);
  for (const { lock } of [held, first, second]) {
    if (lock) await release(holder, lock);
    await kernel.run(kernel.now + ANSWERED_MS, () => false);
  }
  for (const { lock } of [held, first, second]) if (lock) await release(holder, lock);
  const last = ask(holder, { waitMs: FREE_WITHIN_MS });
  await kernel.run(kernel.now + PATIENCE_MS, () => last.isOver);
  if (last.error instanceof LockWaitTimeoutError)
    history.violate(
      'rest',
      `${KEY} is not free, and all that waited for it have been refused or released it`,
    );
  if (last.lock) await release(holder, last.lock);

  async function release({ process }: Actor, lock: Lock): Promise<void> {
    let isOver = false;
    const onOver = () => (isOver = true);
    process.receive(() => void lock.release().then(onOver, onOver));
    await kernel.run(kernel.now + PATIENCE_MS, () => isOver);
  }
}

function ask({ process, services: [service] }: Actor, options: CallOptions) {
  const state = {
    lock: undefined as Lock | undefined,
    error: undefined as unknown,
    /** How many it was told to be behind, if it was refused for that. */
    waiting: undefined as number | undefined,
    isOver: false,
  };
  const acquire = async (): Promise<void> => {
    try {
      state.lock = await service?.acquire(KEY, { waitMs: 60_000, ...options });
    } catch (error) {
      state.error = error;
      if (error instanceof LockWaitTimeoutError) state.waiting = error.waiting;
    }
    state.isOver = true;
  };
  process.receive(() => void acquire());
  return state;
}
