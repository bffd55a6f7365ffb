import type { CallOptions, Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import { nameOf } from './names.js';
import type { Actor, Stage } from './stage.js';

/** Sessions and the names of processes are renewed by it: too often for hours of virtual time if it is shorter. */
const MIN_LEASE_MS = 10_000;
/** Of so many histories with scenes in the calm one lasts for hours. */
const ONE_IN = 15;
const HELD = 'held while sweeps come';
const FREE = 'free while sweeps come';
const GONE = 'left behind by one who has crashed';
/**
 * docs/production.md: sweeps come every five to ten minutes. A SQL table keeps what a crashed process has left for an hour and a free
 * row for ten minutes; a document of etcd or ZooKeeper is deleted when two sweeps ten minutes apart have found it unchanged.
 */
const SWEPT_WITHIN_MS = 2 * 60 * 60_000;
/** Nothing is written for a lock with such a lease, so that a sweep may take it for one that was left behind. */
const HELD_MS = 3 * 60 * 60_000;
const PATIENCE_MS = 15_000;

/**
 * Sweepers delete what nobody has had for long, and what a crashed process has left. They leave alone what is held for as long, and
 * the next grant of a deleted lock has a larger token.
 *
 * @param leaseMs of a lock under the watchdog
 */
export async function sweepInCalm(stage: Stage, leaseMs: number): Promise<void> {
  const { kernel, history, backend, dice } = stage.parts;
  if (!backend.storedKeys || leaseMs < MIN_LEASE_MS || !dice.fork('sweep').happens(1 / ONE_IN)) return;
  const [holder, other, goer] = stage.actors.filter(
    ({ process: { state, name } }) =>
      state === 'running' && !history.drains.some((it) => it.process === name),
  );
  if (!holder || !other) return;
  const take = async (actor: Actor, key: string, options: CallOptions = {}): Promise<Lock | undefined> => {
    const state = { isOver: false, lock: undefined as Lock | undefined };
    const acquire = async (): Promise<void> => {
      state.lock = await actor.services[0]
        ?.acquire(key, { waitMs: 60_000, ...options })
        .catch(() => undefined);
      state.isOver = true;
    };
    actor.process.receive(() => void acquire());
    await kernel.run(kernel.now + PATIENCE_MS, () => state.isOver);
    return state.lock;
  };
  const give = async ({ process }: Actor, lock: Lock): Promise<string> => {
    let outcome = 'nothing';
    const onOver = (text: string): void => void (outcome = text);
    process.receive(() => void lock.release().then(onOver, onOver));
    await kernel.run(kernel.now + PATIENCE_MS, () => outcome !== 'nothing');
    return outcome;
  };

  const held = await take(holder, HELD, { leaseMs: HELD_MS });
  const before = await take(other, FREE);
  if (!held || !before) {
    if (held) await give(holder, held);
    return;
  }
  const { fencingToken } = before;
  await give(other, before);
  const isLeft = goer !== undefined && (await take(goer, GONE)) !== undefined;
  if (isLeft) stage.crash(goer);
  await kernel.run(kernel.now + SWEPT_WITHIN_MS);
  const stored = backend.storedKeys();
  const kept = [FREE, GONE].filter((key) => stored.includes(nameOf(other, key)));
  for (const key of kept)
    history.violate('rest', `nobody has had ${key} for two hours, and no sweep has deleted it`);
  const isHeld = held.validForMs > 0;
  const outcome = await give(holder, held);
  if (!isHeld || outcome !== 'released')
    history.violate('loss', `a lock that was held for two hours is lost, and its release says ${outcome}`);
  const after = await take(other, FREE);
  if (!after) history.violate('progress', `${FREE} is not granted`);
  else if (after.fencingToken <= fencingToken)
    history.violate(
      'tokens',
      `${FREE} has the token ${after.fencingToken} after a sweep, and had ${fencingToken}`,
    );
  if (after) await give(other, after);
}
