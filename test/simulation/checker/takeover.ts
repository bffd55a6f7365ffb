import { haveFelt, havePaused, processesOf } from '../history/felt.js';
import type { History, HoldRecord, Violation } from '../history/history.js';
import { forcedAfterMs, takersOf, type Taker } from '../history/takeovers.js';
import { guardedTimes } from './guarded-times.js';

const REPAIR_MS = 5000;
/** A call learns of a new holder, or of a minimum hold, by its next recheck. */
const RECHECK_MS = 1000;
const SLACK_MS = 200;

interface TakeoverTimes {
  readonly handOffMs: number;
  /** Of a whole request of the store: a quorum gives it twice the time of a node. */
  readonly commandTimeoutMs: number;
  readonly guardMs: number;
}

export function checkTakeover(history: History, times: TakeoverTimes): readonly Violation[] {
  const keys = new Set(history.calls.flatMap((it) => (it.graceMs === undefined ? [] : it.keys)));
  return [...keys].flatMap((key) => [
    ...takersOf(history, key).flatMap((taker) => late(history, key, taker, times)),
    ...handedOn(history, key),
  ]);
}

/**
 * docs/guarantees.md, a takeover: each holder that it meets, and the rest of a minimum hold, loses the key by the grace, or by force
 * soon after it. While nothing is disturbed, a call that takes over does not wait for longer without any change of the key's holder.
 */
function late(history: History, key: string, taker: Taker, times: TakeoverTimes): readonly Violation[] {
  const { handOffMs, commandTimeoutMs, guardMs } = times;
  const { call, process, askedAt, graceMs, keys } = taker;
  const to = taker.settledAt ?? history.endedAt;
  if (keys.length > 1 || taker.isCrashed || !Number.isFinite(handOffMs)) return [];
  const own = history.holds.filter(
    (it) => it.key === key && it.from <= to && (it.endedAt ?? Infinity) >= askedAt,
  );
  if (own.some((it) => it.claim === 'permits')) return [];
  // Of a process one owner asks for all calls of one grace, and does not take its own lock over.
  const isOneOwner = (it: { readonly call: string; readonly process: string }): boolean =>
    it.process === process &&
    it.call !== call &&
    takersOf(history, key).some((other) => other.call === it.call);
  if (own.some(isOneOwner) || isDisturbed(history, key, { from: askedAt, to }, guardMs)) return [];
  const changes = own
    .flatMap((it) => [it.from, it.endedAt ?? history.endedAt])
    .filter((at) => at > askedAt && at < to);
  // Nobody works under the rest of a minimum hold, so that it ends with the grace.
  const isRest = (from: number): boolean =>
    own.some((it) => it.endedAt === from && it.end === 'released' && it.holdAtLeastMs !== undefined) &&
    !own.some((it) => it.from <= from && (it.endedAt ?? Infinity) > from);
  const mostMsFrom = (from: number): number =>
    1.01 * (isRest(from) ? graceMs : forcedAfterMs(graceMs, commandTimeoutMs)) +
    RECHECK_MS +
    3 * handOffMs +
    SLACK_MS;
  let since = askedAt;
  for (const at of [...changes.toSorted((a, b) => a - b), to]) {
    if (at - since > mostMsFrom(since)) {
      const text = `call ${call} of ${process} takes ${key} over within ${graceMs} ms, and waits for ${Math.round(at - since)} ms from ${Math.round(since)} on`;
      return [{ rule: 'hand-off', text }];
    }
    since = at;
  }
  return [];
}

function isDisturbed(
  history: History,
  key: string,
  { from, to }: { readonly from: number; readonly to: number },
  guardMs: number,
): boolean {
  const span = { from, to };
  const processes = processesOf(history, key, to);
  const ofServers = [
    ...history.tooFewReplicas.map((at) => ({ from: at, to: at })),
    ...guardedTimes(history, guardMs),
  ];
  return (
    history.drains.some(({ process, at }) => at <= to && processes.has(process)) ||
    // A waiter that was stopped may have lost its place, and asks again.
    havePaused(history, processes, { from: from - REPAIR_MS, to }) ||
    haveFelt(history, processes, span) ||
    ofServers.some((it) => it.from <= to && it.to + REPAIR_MS >= from) ||
    // A call that has some of its keys holds them without a record.
    history.calls.some(
      (it) =>
        it.keys.length > 1 && it.keys.includes(key) && it.askedAt <= to && (it.settledAt ?? Infinity) >= from,
    )
  );
}

/** A process that is told of a takeover does not hand the lock on to its own callers. */
function handedOn({ holds, pauses }: History, key: string): readonly Violation[] {
  const all = holds.filter((it) => it.key === key && it.claim === 'exclusive' && it.owner !== undefined);
  return all.flatMap((a) => {
    const b = all.find((it) => it.owner === a.owner && it.process === a.process && isAfter(a, it));
    if (!b || pauses.some((it) => it.process === b.process && it.from <= b.from && it.to >= Number(a.toldAt)))
      return [];
    const text = `call ${b.call} of ${b.process} got ${key} within its process, ${Math.round(b.from - Number(a.toldAt))} ms after that was told of a takeover`;
    return [{ rule: 'hand-off', text }];
  });
}

function isAfter({ toldAt = Infinity, call }: HoldRecord, b: HoldRecord): boolean {
  return b.call !== call && !b.call.includes('.') && b.from > toldAt + 1;
}
