import type { CallOptions, Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import { nameOf } from './names.js';
import type { Actor, Stage } from './stage.js';

const KEY = 'foreign';
const LEASE_MS = 3000;
const WORK_MS = 4;
const SLACK_MS = 100;
/** A recheck must not be taken for a hand-off. */
const RECHECK_MS = 900;
const NEXT_RECHECK_MS = 1000;
const PATIENCE_MS = 15_000;
/** A lock that a foreign client waits for is offered to it alone five times a second. */
const TURN_WITHIN_MS = 1000;

/**
 * docs/redisson.md: a client of Redisson and this library exclude each other, a release of one reaches the waiters of the other at once,
 * a foreign client that has crashed keeps the lock for its lease and no longer, and one that waits is not starved by a crowd of ours.
 */
export async function foreignInCalm({ actors, parts }: Stage): Promise<void> {
  const { kernel, history, backend, handOffMs } = parts;
  const mostMs = handOffMs + SLACK_MS;
  const [first, second] = actors.filter(
    ({ process: { state, name } }) =>
      state === 'running' && !history.drains.some((it) => it.process === name),
  );
  if (!backend.foreignClient || mostMs > RECHECK_MS || !first || !second) return;
  const foreign = backend.foreignClient();
  const name = nameOf(first, KEY);
  const run = (ms: number, isOver = () => false) => kernel.run(kernel.now + ms, isOver);
  const refuse = (rule: string, text: string): void => history.violate(rule, text);

  const own = ask(first, {});
  await run(PATIENCE_MS, () => own.isOver);
  if (!own.lock) return;
  foreign.lock(name, LEASE_MS);
  await run(2 * mostMs);
  if (foreign.isHolding) refuse('exclusion', `a foreign client is granted ${KEY} beside its holder`);
  own.release();
  await run(mostMs, () => foreign.isHolding);
  if (!foreign.isHolding)
    return refuse('hand-off', `a foreign client has not got ${KEY} ${mostMs} ms after its release`);

  const hasty = ask(second, { waitMs: 0 });
  const patient = ask(second, {});
  await run(2 * mostMs);
  if (hasty.lock || patient.lock) refuse('exclusion', `${KEY} is granted beside a foreign client`);
  foreign.unlock();
  await run(mostMs, () => patient.isOver);
  if (!patient.lock)
    return refuse('hand-off', `${KEY} is not granted ${mostMs} ms after the release of a foreign client`);

  await watchTurns();
  await run(mostMs);
  await watchCrash();

  /** Callers of both processes keep the lock busy, while the foreign client waits for it. */
  async function watchTurns(): Promise<void> {
    let isCrowded = true;
    let working = 0;
    const caller = async ({ process, services: [service] }: Actor): Promise<void> => {
      while (isCrowded)
        await service?.withLock(
          KEY,
          { waitMs: Infinity },
          () => new Promise<void>((resolve) => process.setTimeout(WORK_MS, resolve)),
        );
    };
    for (const actor of [first, first, second, second] as readonly Actor[]) {
      working += 1;
      const onEnd = (): void => void (working -= 1);
      actor.process.receive(() => void caller(actor).then(onEnd, onEnd));
    }
    await run(2 * mostMs);
    foreign.lock(name, LEASE_MS);
    patient.release();
    await run(TURN_WITHIN_MS + mostMs, () => foreign.isHolding);
    if (!foreign.isHolding)
      refuse(
        'hand-off',
        `a foreign client waits for ${KEY} behind a crowd for more than ${TURN_WITHIN_MS} ms`,
      );
    isCrowded = false;
    foreign.unlock();
    await run(PATIENCE_MS, () => working === 0);
  }

  async function watchCrash(): Promise<void> {
    foreign.lock(name, LEASE_MS);
    if (!foreign.isHolding)
      return refuse('hand-off', `a foreign client is not granted ${KEY}, which is free`);
    const since = kernel.now;
    foreign.crash();
    const heir = ask(second as Actor, {});
    await run(0.98 * LEASE_MS - SLACK_MS, () => heir.isOver);
    if (heir.lock)
      refuse('exclusion', `${KEY} is granted within the lease of a foreign client that has crashed`);
    await run(since + 1.02 * LEASE_MS + NEXT_RECHECK_MS + mostMs - kernel.now, () => heir.isOver);
    if (!heir.isOver)
      refuse('progress', `${KEY} is not granted after the lease of a foreign client that has crashed`);
    heir.release();
    await run(mostMs);
  }
}

/** One call that holds until it is told to release. */
function ask({ process, services: [service] }: Actor, options: CallOptions) {
  const state = { lock: undefined as Lock | undefined, isOver: false, release: (): void => undefined };
  const acquire = async (): Promise<void> => {
    const lock = await service?.acquire(KEY, { waitMs: 60_000, ...options }).catch(() => undefined);
    state.lock = lock;
    state.isOver = true;
    state.release = () => process.receive(() => void lock?.release().catch(() => undefined));
  };
  process.receive(() => void acquire());
  return state;
}
