import { isLockError, type LockDeadlockError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { CallRecord, History, Violation } from '../history/history.js';

/**
 * docs/guarantees.md, in your process: async flows of one service that would wait for each other's keys do not. The one that would
 * close the circle is refused when it asks, and no call is refused so without a circle.
 */
export function checkDeadlocks({ calls }: History): readonly Violation[] {
  return calls.flatMap((call) => {
    const path = pathOf(call);
    const text = path ? needless(calls, call, path) : missed(calls, call);
    return text ? [{ rule: 'deadlock', text: `call ${call.call} of ${call.process} ${text}` }] : [];
  });
}

function pathOf({ error, prefix = '' }: CallRecord): readonly string[] | undefined {
  if (!isLockError(error) || error.code !== 'LOCK_DEADLOCK') return undefined;
  return (error as LockDeadlockError).path.map((key) => prefix + key);
}

/**
 * What is wrong if there was a circle neither when the call asked nor when it failed. The library decides when the call asks. If the event loop
 * blocks right then, the caller learns of it after its flow has lost the key of the circle.
 */
function needless(
  calls: readonly CallRecord[],
  call: CallRecord,
  path: readonly string[],
): string | undefined {
  const { askedAt, settledAt = Infinity } = call;
  return noCircleAt(askedAt, calls, call, path) && noCircleAt(settledAt, calls, call, path);
}

/** Each key of the path is held by a flow that waits for the next one, and the last one by the flow of the call. */
function noCircleAt(
  at: number,
  calls: readonly CallRecord[],
  call: CallRecord,
  path: readonly string[],
): string | undefined {
  const others = calls.filter((it) => it !== call && isOfOne(it, call) && waitsAt(it, at));
  for (const [i, key] of path.entries()) {
    const next = path[i + 1];
    const isTrue =
      next === undefined
        ? has(call, key, at)
        : others.some((it) => it.keys.includes(next) && has(it, key, at));
    if (!isTrue)
      return `is told of a circle of waits by ${path.join(', ')}, and no flow that has ${key} waits`;
  }
  return undefined;
}

/** The last of the flows that wait for each other must not have begun to wait. Of several keys it waits for one at a time. */
function missed(calls: readonly CallRecord[], call: CallRecord): string | undefined {
  const { askedAt: at, settledAt = Infinity, waitMs } = call;
  if (settledAt < at + 1 || waitMs <= 0 || call.keys.length > 1 || call.isStanding || call.isCrashed)
    return undefined;
  const waiting = calls.filter(
    (it) =>
      it !== call &&
      isOfOne(it, call) &&
      it.keys.length === 1 &&
      // One that asks once does not wait.
      it.waitMs > 0 &&
      it.askedAt < at &&
      waitsAt(it, at + 1),
  );
  const seen = new Set<CallRecord>();
  const closes = (wanted: CallRecord): boolean =>
    waiting.some((it) => {
      if (seen.has(it) || !hasAlone(it, wanted.keys[0] ?? '', at)) return false;
      seen.add(it);
      return hasAlone(call, it.keys[0] ?? '', at) || closes(it);
    });
  return closes(call) ? `waits for ${call.keys.join()}, and so for itself` : undefined;
}

function isOfOne(a: CallRecord, b: CallRecord): boolean {
  return a.process === b.process && a.service === b.service;
}

function waitsAt({ askedAt, settledAt = Infinity }: CallRecord, at: number): boolean {
  return askedAt <= at && settledAt >= at;
}

/** Its flow has the key, or has acquired it together with others by the same call. */
function has({ under, keys }: CallRecord, key: string, at: number): boolean {
  return keys.length > 1 && keys.includes(key)
    ? true
    : under.some((it) => it.key === key && isKeptAt(it, at));
}

function hasAlone({ under }: CallRecord, key: string, at: number): boolean {
  return under.some((it) => it.key === key && it.claim === 'exclusive' && livesAt(it, at + 1));
}

/** A flow that has lost one of its keys keeps the others until its work ends. */
function isKeptAt({ endedAt = Infinity, lockedUntil = endedAt }: CallRecord['under'][number], at: number) {
  return Math.max(endedAt, lockedUntil) >= at;
}

function livesAt({ endedAt = Infinity }: CallRecord['under'][number], at: number): boolean {
  return endedAt >= at;
}
