import type { WithLockOptions, Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import { LockWaitTimeoutError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { Asking } from '../plan/plan.js';
import type { CallRecord, History } from './history.js';
import { callLocked, type LockedWork, type Outcome } from './locked.js';
import type { Actor, Held } from './stage.js';

/** A call whose wait is over at that moment asks its store for the name of the holder first. */
const AT_ONCE_MS = 250;
/** The answer of `onBusy`. */
const BUSY = { is: 'busy' };

interface LockedAsking {
  readonly asking: Asking;
  readonly options: WithLockOptions;
  readonly call: CallRecord;
  readonly actor: Actor;
  readonly history: History;
  /** Makes the error that a plan has a method throw. */
  readonly failure: () => Error;
}

interface Work {
  readonly hold: (lock: Lock) => Held;
  readonly run: (held: Held) => Promise<void>;
  readonly items: (held: Held) => AsyncGenerator<number>;
  /** The reader has left: the lock is given back, whatever its work still does. */
  readonly leave: (held: Held) => void;
  readonly settle: () => void;
}

/**
 * Calls a method with `@Locked`, and compares what its caller gets with what the method did: its result or its very error. Without a
 * lock, or under another one, no method runs.
 */
export async function askLocked(asked: LockedAsking, work: Work): Promise<void> {
  const { asking, call, actor, options } = asked;
  const { locked, keys } = asking;
  const { signal, ...others } = options;
  const result = {};
  let held: Held | undefined;
  let running: Promise<unknown> | undefined;
  let hasRun = false;
  let failure: Error | undefined;
  const report = (text: string) =>
    asked.history.violate('locked', `call ${call.call} of ${call.process} ${text}`);
  const begin = (lock: Lock | undefined): Held | undefined => {
    hasRun = true;
    work.settle();
    if (locked?.isFree) return undefined;
    const have = lock ? lock.keys : [];
    if (have.toSorted().join() === keys.toSorted().join()) return (held = work.hold(lock as Lock));
    // Its process may stand still between the grant and the method, for longer than the lease.
    const hasPaused = asked.history.pauses.some((it) => it.process === call.process && it.to >= call.askedAt);
    if (!lock && hasPaused) return undefined;
    report(`runs its method under ${have.join('+') || 'no lock'}`);
    return undefined;
  };
  const run = async (lock: Lock): Promise<object> => {
    try {
      const its = begin(lock);
      if (its) await work.run(its);
      return result;
    } catch (error) {
      failure = error as Error;
      throw error;
    }
  };
  const methods: LockedWork = {
    promised: (lock) => {
      const promise = run(lock);
      running = promise;
      return promise;
    },
    thrown: (lock) => {
      const its = begin(lock);
      if (its) work.leave(its);
      failure = locked?.onBusy ? busyOf(keys) : asked.failure();
      throw failure;
    },
    async *items(lock) {
      try {
        const its = begin(lock);
        if (its) yield* work.items(its);
        else yield* Array.from(asking.work, (_, i) => i);
      } catch (error) {
        failure = error as Error;
        throw error;
      }
    },
    onLeft: () => {
      if (!held) return;
      held.isLeft = true;
      for (const record of held.records) record.isLeft = true;
      work.leave(held);
    },
    onRefused: work.settle,
    hasBegun: () => hasRun,
    onLate: (ms) => {
      const { pauses } = asked.history;
      const { name, trueNow } = actor.process;
      const hasPaused = pauses.some((it) => it.process === name && it.to >= trueNow - ms);
      if (ms > AT_ONCE_MS && !hasPaused)
        report(`waits for ${Math.round(ms)} ms after its generator was ended`);
    },
    onBusy: (busy) => {
      call.error = busy;
      return BUSY;
    },
  };
  const hasClientLeft = () => asking.how === 'handler' && signal?.aborted === true;
  const isLost = () => held?.records.some(({ end }) => end === 'lost') ?? false;
  try {
    if (locked?.isFree) call.needsNoLock = true;
    if (locked?.onBusy === 'skip' && options.waitMs === undefined) Object.assign(call, { waitMs: 0 });
    const { process, services } = actor;
    const outcome = await callLocked({ process, services, asking, options: others, signal }, methods);
    judge(outcome);
  } catch (error) {
    if (failure === undefined || isLost() || hasClientLeft()) throw error;
    if (error !== failure)
      report(`fails with ${String((error as Error).message)}, and its method with ${failure.message}`);
    throw asked.failure();
  } finally {
    // A request that has lost one of several keys is answered, and its handler works on under the others.
    if (held?.items) await held.items;
    else await running?.catch(() => undefined);
    if (held) work.leave(held);
  }

  function judge(outcome: Outcome): void {
    if (outcome.did === 'leave' && !hasRun) call.needsNoLock = true;
    if (outcome.did === 'leave' || hasClientLeft()) return;
    if (failure !== undefined && !isLost()) report(`succeeds, and its method fails with ${failure.message}`);
    if (isLost() && options.onLost !== 'ignore') report('succeeds although it has lost its lock');
    const isBusy = call.error !== undefined;
    if (!hasRun && locked?.onBusy === 'skip') call.isRefused = true;
    else if (!hasRun && !isBusy) report('succeeds, and its method has not run');
    if (outcome.did === 'read' && hasRun && outcome.count < asking.work.length)
      report(`ends after ${outcome.count} items of ${asking.work.length}`);
    if (outcome.did === 'return' && hasRun && outcome.value !== result)
      report(`returns ${JSON.stringify(outcome.value)}, which is not the result of its method`);
    if (isBusy && hasRun) report('is answered by onBusy, and its method has run');
    if (isBusy && outcome.did === 'return' && outcome.value !== BUSY)
      report('does not return the answer of onBusy');
  }
}

function busyOf(keys: readonly string[]): LockWaitTimeoutError {
  return new LockWaitTimeoutError(keys[0] ?? '', 1000);
}
