import type { CallRecord, History, HoldRecord, Violation } from '../history/history.js';
import { conflicts } from './exclusion.js';
import { firstAfter, grouped, idOf } from './grouped.js';

/** A request may lose against others for some turns before it has its ticket. */
const TURNS = 3;
/** After a pause or a disturbance a ticket may be lost and drawn anew. */
const REPAIR_MS = 5000;

/**
 * docs/guarantees.md, liveness: processes are served in the order in which they joined the queue, over all kinds: readers,
 * writers and permits, also while others go on coming, and again soon after a fault. The first caller of a process joins it. One that
 * asks again meanwhile may be served with it.
 */
export function checkTurns(history: History, handOffMs: number): readonly Violation[] {
  const { endedAt } = history;
  const stays = new Stays(history);
  return history.calls.flatMap((first) => {
    const [key] = first.keys;
    if (key === undefined || first.keys.length > 1 || first.isCrashed || first.waitMs === 0) return [];
    if (first.call.includes('.') || stays.joinedAt(first, key) < first.askedAt) return [];
    const own = stays.holdOf(first, key);
    const heldAt = own?.from ?? first.settledAt ?? endedAt;
    const calmFrom = lastRepairedAt(history, first.askedAt, heldAt);
    const ticketAt = Math.max(first.askedAt, calmFrom) + TURNS * handOffMs;
    // Those that are granted together are told in any order.
    const before = own?.claim === 'exclusive' ? heldAt : heldAt - handOffMs;
    const overtaker = stays
      .heldBetween(key, ticketAt, before)
      .find(
        (it) =>
          it.process !== first.process &&
          !stays.isTaker(it) &&
          (!own || conflicts(own, it) || own.claim === 'permits') &&
          stays.hasJoinedAfter(it, ticketAt),
      );
    if (!overtaker) return [];
    const text = `call ${overtaker.call} of ${overtaker.process} got ${key} before call ${first.call} of ${first.process}, whose process had joined the queue before it`;
    return [{ rule: 'order', text }];
  });
}

/** Since when each process has asked for a key or held it, found with one pass over the calls. */
export class Stays {
  private readonly calls: ReadonlyMap<string, CallRecord>;
  /** By call and key: its last hold. */
  private readonly holds = new Map<string, HoldRecord>();
  /** By key, in the order in which they begin. */
  private readonly holdsOfKey: ReadonlyMap<string, readonly HoldRecord[]>;
  /** By call and key. */
  private readonly joins = new Map<string, number>();

  constructor({ calls, holds }: History) {
    this.calls = new Map(calls.toReversed().map((call) => [idOf(call), call]));
    for (const hold of holds) this.holds.set(`${idOf(hold)} ${hold.key}`, hold);
    this.holdsOfKey = grouped(
      holds.toSorted((a, b) => a.from - b.from),
      ({ key }) => [key],
    );
    const inOrder = calls.toSorted((a, b) => a.askedAt - b.askedAt);
    for (const ofProcess of grouped(inOrder, ({ process }) => [process]).values())
      for (const [key, ofKey] of grouped(ofProcess, ({ keys }) => keys)) this.join(key, ofKey);
  }

  /** When the process of a call began to ask for its key, or to hold it, without a break since. */
  joinedAt(call: CallRecord, key: string): number {
    return this.joins.get(`${idOf(call)} ${key}`) ?? call.askedAt;
  }

  holdOf(call: CallRecord, key: string): HoldRecord | undefined {
    return this.holds.get(`${idOf(call)} ${key}`);
  }

  heldBetween(key: string, from: number, to: number): readonly HoldRecord[] {
    const holds = this.holdsOfKey.get(key) ?? [];
    const first = firstAfter(holds, from);
    const found: HoldRecord[] = [];
    for (let hold = holds[first]; hold && hold.from < to; hold = holds[first + found.length])
      found.push(hold);
    return found;
  }

  /** It goes ahead of all that wait. */
  isTaker(hold: HoldRecord): boolean {
    return this.calls.get(idOf(hold))?.graceMs !== undefined;
  }

  hasJoinedAfter(hold: HoldRecord, at: number): boolean {
    const later = this.calls.get(idOf(hold));
    return later !== undefined && !hold.call.includes('.') && this.joinedAt(later, hold.key) > at;
  }

  /** @param calls of one process, in the order in which they asked */
  private join(key: string, calls: readonly CallRecord[]): void {
    let since = -Infinity;
    let until = -Infinity;
    for (const call of calls) {
      if (call.askedAt > until) since = call.askedAt;
      until = Math.max(until, this.endOf(call, key));
      this.joins.set(`${idOf(call)} ${key}`, since);
    }
  }

  /** Of several keys each may be held, or waited for, until the call is over. */
  private endOf(call: CallRecord, key: string): number {
    const hold = this.holdOf(call, key);
    const held = hold ? (hold.endedAt ?? Infinity) : -Infinity;
    return Math.max(call.settledAt ?? Infinity, held);
  }
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
