import type { CallRecord, History, HoldRecord, Violation } from '../history/history.js';
import { conflicts } from './exclusion.js';

/** A request may lose against others for some turns before it has its ticket. */
const TURNS = 3;
/** After a pause or a disturbance a ticket may be lost and drawn anew. */
const REPAIR_MS = 5000;

type OfOneKey = CallRecord & { readonly key: string };

/**
 * docs/guarantees.md, liveness: processes are served in the order in which they joined the queue, over all kinds: readers,
 * writers and permits, also while others go on coming, and again soon after a fault. The first caller of a process joins it. One that
 * asks again meanwhile may be served with it.
 */
export function checkTurns(history: History, handOffMs: number): readonly Violation[] {
  const { endedAt } = history;
  return history.calls.flatMap((first) => {
    const [key] = first.keys;
    if (key === undefined || first.keys.length > 1 || first.isCrashed || first.waitMs === 0) return [];
    if (first.call.includes('.') || joinedAt(history, { ...first, key }) < first.askedAt) return [];
    const own = holdOf(history, first, key);
    const heldAt = own?.from ?? first.settledAt ?? endedAt;
    const calmFrom = lastRepairedAt(history, first.askedAt, heldAt);
    const ticketAt = Math.max(first.askedAt, calmFrom) + TURNS * handOffMs;
    // Those that are granted together are told in any order.
    const before = own?.claim === 'exclusive' ? heldAt : heldAt - handOffMs;
    const overtaker = history.holds.find(
      (it) =>
        it.key === key &&
        it.process !== first.process &&
        !isTaker(history, it) &&
        it.from > ticketAt &&
        it.from < before &&
        (!own || conflicts(own, it) || own.claim === 'permits') &&
        hasJoinedAfter(history, it, ticketAt),
    );
    if (!overtaker) return [];
    const text = `call ${overtaker.call} of ${overtaker.process} got ${key} before call ${first.call} of ${first.process}, whose process had joined the queue before it`;
    return [{ rule: 'order', text }];
  });
}

/** It goes ahead of all that wait. */
function isTaker({ calls }: History, { call, process }: HoldRecord): boolean {
  return calls.some((it) => it.call === call && it.process === process && it.graceMs !== undefined);
}

function hasJoinedAfter(history: History, { call, process, key }: HoldRecord, at: number): boolean {
  const later = history.calls.find((it) => it.call === call && it.process === process);
  return later !== undefined && !call.includes('.') && joinedAt(history, { ...later, key }) > at;
}

/** When the process of a call began to ask for its key, or to hold it, without a break since. */
function joinedAt(history: History, { process, key, askedAt }: OfOneKey): number {
  let since = askedAt;
  for (const call of history.calls.toReversed()) {
    if (call.process !== process || !call.keys.includes(key) || call.askedAt > since) continue;
    if (endOf(history, call, key) >= since) since = Math.min(since, call.askedAt);
  }
  return since;
}

/** Of several keys each may be held, or waited for, until the call is over. */
function endOf(history: History, call: CallRecord, key: string): number {
  const hold = holdOf(history, call, key);
  const held = hold ? (hold.endedAt ?? Infinity) : -Infinity;
  return Math.max(call.settledAt ?? Infinity, held);
}

function holdOf({ holds }: History, { call, process }: CallRecord, key: string): HoldRecord | undefined {
  return holds.findLast((it) => it.call === call && it.process === process && it.key === key);
}

/** When the last ticket that a pause or a disturbance may have cost between the two times has been drawn anew. */
function lastRepairedAt({ pauses, disturbances }: History, from: number, to: number): number {
  const ends = [
    ...pauses.map((it) => ({ at: it.from, to: it.to })),
    // On a connection that is silent for good no notification comes.
    ...disturbances.map((it) => ({ at: it.at, to: it.kind === 'lose' ? Infinity : Math.max(it.at, it.to) })),
  ];
  const felt = ends.filter((it) => it.at <= to && it.to + REPAIR_MS >= from);
  return Math.max(-Infinity, ...felt.map((it) => it.to + REPAIR_MS));
}
