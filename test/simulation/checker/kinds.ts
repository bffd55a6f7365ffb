import { LockStoreError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { CallRecord, History, HoldRecord, Violation } from '../history/history.js';
import { grouped } from './grouped.js';

/** What happened before may still be felt while connections are replaced. */
const REPAIR_MS = 5000;

interface Times {
  /** How long a refusal may take, while nothing is disturbed. */
  readonly answerMs: number;
}

/** Whether the store has refused the call, and the key was in use as the other kind of lock, so that it had to. */
export function isRefusedForKind(history: History, call: CallRecord, longestMs: number): boolean {
  const { error, keys, askedAt, settledAt = history.endedAt } = call;
  if (!(error instanceof LockStoreError) || error.reason !== 'refused') return false;
  return history.calls.some((it) => {
    if (!it.keys.some((key) => keys.includes(key) && isForPermits(it, key) !== isForPermits(call, key)))
      return false;
    return it.askedAt <= settledAt && usesUntil(history, it, longestMs) >= askedAt;
  });
}

/** docs/guarantees.md, several keys: a call for permits of a key that is in use as a lock is refused, and the reverse. It does not wait. */
export function checkKinds(history: History, { answerMs }: Times): readonly Violation[] {
  const holdsOf = grouped(history.holds, ({ key }) => [key]);
  return history.calls.flatMap((call) => {
    const { askedAt, settledAt = history.endedAt, keys } = call;
    const [key = ''] = keys;
    if (keys.length > 1 || call.isCrashed) return [];
    const inUse = holdsOf
      .get(key)
      ?.find(
        (it) =>
          (it.claim === 'permits') !== isForPermits(call, key) &&
          it.from <= askedAt &&
          Math.min(it.endedAt ?? history.endedAt, settledAt) > askedAt + answerMs,
      );
    if (!inUse || isDisturbed(history, askedAt - REPAIR_MS, askedAt + answerMs)) return [];
    const text = `call ${call.call} of ${call.process} waits for ${inUse.key}, which call ${inUse.call} of ${inUse.process} has as the other kind`;
    return [{ rule: 'refusal', text }];
  });
}

function isForPermits({ ofPermits = [] }: CallRecord, key: string): boolean {
  return ofPermits.includes(key);
}

/** Servers may keep the lock of one that is gone, and its place in the queue. */
function usesUntil(history: History, call: CallRecord, longestMs: number): number {
  const { settledAt = history.endedAt, error, isCrashed } = call;
  const hold = holdOf(history, call);
  if (!hold) return settledAt + (error === undefined && !isCrashed ? 0 : longestMs);
  return (hold.endedAt ?? history.endedAt) + longestMs;
}

function holdOf({ holds }: History, { call, process }: CallRecord): HoldRecord | undefined {
  return holds.findLast((it) => it.call === call && it.process === process);
}

function isDisturbed({ pauses, disturbances }: History, from: number, to: number): boolean {
  return (
    pauses.some((it) => it.from <= to && it.to >= from) ||
    disturbances.some((it) => it.at <= to && (it.kind === 'lose' || Math.max(it.at, it.to) >= from))
  );
}
