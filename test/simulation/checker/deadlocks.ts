import { LockDeadlockError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { CallRecord, History, HoldRecord, Violation } from '../history/history.js';

/** The service knows of the cycle at the moment that closes it. */
const SOON_MS = 50;

/**
 * Two async flows of one service that hold what the other waits for never go on. The call that closes the cycle gets
 * `LockDeadlockError`, and no other call does.
 */
export function checkDeadlocks(history: History): readonly Violation[] {
  return [...falseOnes(history), ...unseenOnes(history)];
}

function falseOnes({ calls }: History): readonly Violation[] {
  return calls.flatMap((call) => {
    const { error } = call;
    if (!(error instanceof LockDeadlockError) || isCycle(calls, call, error.path)) return [];
    const text = `call ${call.call} of ${call.process} gets a LockDeadlockError by ${error.path.join(', ')}, and there is no such cycle`;
    return [{ rule: 'deadlock', text }];
  });
}

/** The holder of each key of the path waits for the next one, and the call's own flow holds the last one. */
function isCycle(calls: readonly CallRecord[], call: CallRecord, path: readonly string[]): boolean {
  const last = path.at(-1);
  const at = call.settledAt ?? Infinity;
  if (last === undefined || !call.keys.includes(path[0] as string)) return false;
  if (!call.under.some((it) => it.key === last && isHeldBetween(it, at, at))) return false;
  return path.slice(0, -1).every((key, i) => {
    const next = path[i + 1] as string;
    return calls.some(
      (it) =>
        it !== call &&
        it.process === call.process &&
        it.keys.includes(next) &&
        it.askedAt <= at &&
        (it.settledAt ?? Infinity) >= at &&
        [...it.under].some((hold) => hold.key === key),
    );
  });
}

function unseenOnes({ calls, endedAt }: History): readonly Violation[] {
  return calls.flatMap((one, i) =>
    calls.slice(i + 1).flatMap((two) => {
      if (one.process !== two.process || one.service === undefined || one.service !== two.service) return [];
      const from = Math.max(one.askedAt, two.askedAt);
      const to = Math.min(one.settledAt ?? endedAt, two.settledAt ?? endedAt);
      if (to - from < SOON_MS || !waitsFor(one, two, from, to) || !waitsFor(two, one, from, to)) return [];
      const text = `calls ${one.call} and ${two.call} of ${one.process} wait for each other for ${Math.round(to - from)} ms, and neither gets a LockDeadlockError`;
      return [{ rule: 'deadlock', text }];
    }),
  );
}

/** Its one key is held alone by the flow of the other call for the whole time. */
function waitsFor(call: CallRecord, other: CallRecord, from: number, to: number): boolean {
  const [key, ...more] = call.keys;
  return (
    more.length === 0 &&
    !call.isCrashed &&
    other.under.some((it) => it.key === key && it.claim === 'exclusive' && isHeldBetween(it, from, to))
  );
}

function isHeldBetween({ from, endedAt = Infinity }: HoldRecord, start: number, end: number): boolean {
  return from <= start && endedAt >= end;
}
