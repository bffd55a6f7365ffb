import type { CallRecord, History, HoldRecord, Violation } from '../history/history.js';
import { COST_A_CONNECTION } from './harmless.js';
import { Stays } from './turns.js';

/** A request may lose against others for some turns before it has its ticket. */
const TURNS = 3;
/** The first request of a process waits for a connection and its handshake; on ZooKeeper for a session. */
const HANDSHAKES = 8;
/** After a fault a waiter connects again, opens a session where it needs one, and rechecks. */
const REPAIR_MS = 6000;
/** Whatever these cost its process, a waiter still knows its ticket, and no server has lost anything. */
const LEAVE_TICKETS: readonly string[] = [
  ...COST_A_CONNECTION,
  'hold',
  'cut',
  'crash',
  'restart',
  'call',
  'block',
  'stop',
  'suspend',
  'rate',
  'clock',
];

interface KeptPlacesTimes {
  readonly handOffMs: number;
  readonly roundTripMs: number;
}

/**
 * docs/guarantees.md, liveness and etcd: processes are served in the order in which they joined the queue, and a waiter that the store has
 * dropped from the queue, because its process was silent or its session ended, enters it again with its old ticket. So it gets an exclusive
 * lock before a process that joined after it, if both wait when all faults are over.
 */
export function checkKeptPlaces(
  history: History,
  { handOffMs, roundTripMs }: KeptPlacesTimes,
): readonly Violation[] {
  const stays = new Stays(history);
  return history.calls.flatMap((first) => {
    const [key] = first.keys;
    if (key === undefined || !isPlain(first) || stays.joinedAt(first, key) < first.askedAt) return [];
    const own = stays.holdOf(first, key);
    if (own?.claim !== 'exclusive') return [];
    const placedBy = first.askedAt + TURNS * handOffMs + HANDSHAKES * roundTripMs;
    if (placedBy >= own.from || !isCalm(history, first.askedAt, placedBy)) return [];
    const overtaker = stays
      .heldBetween(key, placedBy, own.from)
      .find(
        (it) =>
          it.claim === 'exclusive' &&
          it.process !== first.process &&
          !stays.isTaker(it) &&
          stays.hasJoinedAfter(it, placedBy) &&
          areTicketsKept(history, first, it),
      );
    if (!overtaker) return [];
    const text = `call ${overtaker.call} of ${overtaker.process} got ${key} before call ${first.call} of ${first.process}, which had its place in the queue before it and was not away any more`;
    return [{ rule: 'order', text }];
  });
}

function isPlain({ keys, call, isCrashed, waitMs, graceMs }: CallRecord): boolean {
  return (
    keys.length === 1 && !call.includes('.') && isCrashed !== true && waitMs > 0 && graceMs === undefined
  );
}

/** Nothing that is felt in this time happens. */
function isCalm(history: History, from: number, to: number): boolean {
  return eventsOf(history).every((it) => it.at > to || it.to + REPAIR_MS < from);
}

/** What has happened since a call asked leaves waiters their tickets, and is repaired when the other one enters. */
function areTicketsKept(history: History, { askedAt }: CallRecord, { from }: HoldRecord): boolean {
  return eventsOf(history)
    .filter((it) => it.at <= from && it.to + REPAIR_MS >= askedAt)
    .every((it) => LEAVE_TICKETS.includes(it.kind) && it.to + REPAIR_MS < from);
}

function eventsOf({ pauses, disturbances, tooFewReplicas }: History) {
  return [
    ...pauses.map(({ kind, from, to }) => ({ kind: kind as string, at: from, to })),
    ...disturbances.map(({ kind, at, to }) => ({ kind, at, to: Math.max(at, to) })),
    ...tooFewReplicas.map((at) => ({ kind: 'too few replicas', at, to: at })),
  ];
}
