import { LockWaitTimeoutError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import { RECHECK_MS } from '../../../libs/distributed-lock/src/port/timing.js';
import type { CallRecord, History, Violation } from '../history/history.js';

/** A recheck fails, and the next one. */
const COMMANDS = 2;
const SLACK_MS = 200;

/**
 * docs/guarantees.md: acquires fail with `LockStoreError` while the store cannot be reached. So who has heard nothing of it for longer than
 * a recheck may take is not told that somebody else has the key. Only what its own process knows may refuse it: it holds the key itself,
 * or so many of its callers wait.
 */
export function checkAway(history: History): readonly Violation[] {
  const { disturbances, commandTimeoutMs } = history;
  const knownMs = RECHECK_MS + COMMANDS * commandTimeoutMs + SLACK_MS;
  return history.calls.flatMap((call) => {
    const { settledAt = history.endedAt, keys, process } = call;
    if (!isBusy(call) || keys.length > 1) return [];
    const cut = disturbances.find(
      (it) => it.isWhole && it.process === process && it.at + knownMs <= settledAt && settledAt <= it.to,
    );
    if (!cut || isOwn(history, call, settledAt - knownMs) || hasPaused(history, call, settledAt - knownMs))
      return [];
    const text = `call ${call.call} of ${process} is told that ${keys.join('+')} is not free, and its process has not reached the store for ${Math.round(settledAt - cut.at)} ms`;
    return [{ rule: 'refusal', text }];
  });
}

/** It is told that somebody else has the key, and not that too many wait. */
function isBusy({ error, isRefused }: CallRecord): boolean {
  return isRefused === true || (error instanceof LockWaitTimeoutError && error.waiting === undefined);
}

function isOwn(
  { holds, endedAt }: History,
  { keys, process, settledAt = endedAt }: CallRecord,
  since: number,
): boolean {
  return holds.some(
    (it) =>
      it.process === process &&
      keys.includes(it.key) &&
      it.from <= settledAt &&
      (it.lockedUntil ?? it.endedAt ?? endedAt) >= since,
  );
}

function hasPaused(
  { pauses, endedAt }: History,
  { process, settledAt = endedAt }: CallRecord,
  since: number,
): boolean {
  return pauses.some((it) => it.process === process && it.from <= settledAt && it.to >= since);
}
