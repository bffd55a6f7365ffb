import type { CallRecord, History, HoldRecord, Violation } from '../history/history.js';

/** A request may lose against others for some turns before it has its ticket. */
const TURNS = 3;
/** After a pause or a disturbance a ticket may be lost and drawn anew. */
const REPAIR_MS = 5000;

/**
 * docs/guarantees.md, liveness: `fair` callers get a key in the order in which they asked, across processes. Two of them that
 * ask within some messages of each other may have their tickets in either order.
 */
export function checkOrder(history: History, handOffMs: number): readonly Violation[] {
  const overtaken = fairCalls(history).flatMap((first) => {
    const ticketAt = first.askedAt + TURNS * handOffMs;
    const heldAt = holdOf(history, first)?.from ?? first.settledAt ?? history.endedAt;
    const later = fairCalls(history).find((other) => {
      const hold = holdOf(history, other);
      return other.key === first.key && other.askedAt > ticketAt && hold !== undefined && hold.from < heldAt;
    });
    return later && !isDisturbed(history, first.askedAt, heldAt) ? [{ first, later }] : [];
  });
  return overtaken.map(({ first, later }) => ({
    rule: 'order',
    text: `call ${later.call} of ${later.process} got ${later.key} before call ${first.call} of ${first.process}, which had asked ${Math.round(later.askedAt - first.askedAt)} ms before it`,
  }));
}

type FairCall = CallRecord & { readonly key: string };

/** Of those that hold a key alone, and are not nested in another call. */
function fairCalls({ calls }: History): readonly FairCall[] {
  return calls.flatMap((call) => {
    const [key] = call.keys;
    const isPlain = call.isFair && !call.isCrashed && call.keys.length === 1 && !call.call.includes('.');
    return isPlain && key !== undefined ? [{ ...call, key }] : [];
  });
}

function holdOf({ holds }: History, { call, process }: CallRecord): HoldRecord | undefined {
  return holds.find((it) => it.call === call && it.process === process);
}

function isDisturbed({ pauses, disturbances }: History, from: number, to: number): boolean {
  return (
    pauses.some((it) => it.from <= to && it.to + REPAIR_MS >= from) ||
    disturbances.some(
      (it) => it.at <= to && (it.kind === 'lose' || Math.max(it.at, it.to) + REPAIR_MS >= from),
    )
  );
}
