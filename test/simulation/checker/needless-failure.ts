import { LockStoreError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { History, Violation } from '../history/history.js';
import { guardedTimes } from './guarded-times.js';
import { isRefusedForKind } from './kinds.js';

/** A command is answered in time if it may take so many round trips. */
const ROUND_TRIPS_PER_COMMAND = 5;
/** What happened before may still be felt while connections are replaced. */
const REPAIR_MS = 5000;

interface Times {
  readonly commandTimeoutMs: number;
  readonly roundTripMs: number;
  /** `restartGuardMs` of the stores; default 0. */
  readonly guardMs?: number;
  /** The longest lease or minimum hold that may be left of somebody who is gone. */
  readonly longestMs: number;
}

/** docs/guarantees.md, liveness: a call fails with an error of the store only where the store cannot be reached, or refuses. */
export function checkNeedlessFailure(
  history: History,
  { commandTimeoutMs, roundTripMs, longestMs, guardMs = 0 }: Times,
): readonly Violation[] {
  if (roundTripMs * ROUND_TRIPS_PER_COMMAND > commandTimeoutMs) return [];
  const { calls, disturbances, pauses, tooFewReplicas } = history;
  return calls.flatMap((call) => {
    const { error, askedAt, settledAt = history.endedAt } = call;
    if (!(error instanceof LockStoreError) || isRefusedForKind(history, call, longestMs)) return [];
    const from = askedAt - REPAIR_MS;
    const isDisturbed =
      disturbances.some(
        (it) => it.kind === 'lose' || (it.at <= settledAt && Math.max(it.at, it.to) >= from),
      ) ||
      pauses.some((it) => it.from <= settledAt && it.to >= from) ||
      guardedTimes(history, guardMs).some((it) => it.from <= settledAt && it.to >= askedAt) ||
      tooFewReplicas.some((at) => at >= askedAt && at <= settledAt);
    if (isDisturbed) return [];
    const text = `call ${call.call} of ${call.process} failed, and nothing had happened: ${error.message}`;
    return [{ rule: 'errors', text }];
  });
}
