import type { CallRecord, History, HoldRecord, Violation } from '../history/history.js';

/** An owner may have to wait for so many turns of every other one: those before it in the queue, and what a race costs it. */
const ROUNDS = 3;
/** A first request waits for a connection and its handshake; on ZooKeeper for a session, whose length is measured by some round trips first. */
const HANDSHAKES = 8;

interface OvertakenTimes {
  /** For how long a fault may delay a waiter, in ms: until the leases that it leaves behind are over, plus rechecks and their commands. */
  readonly repairMs: number;
  /** Of one request at most, also to a server that lags behind. */
  readonly roundTripMs: number;
  /** Services of all processes, each of which has one owner at a time in the queue for most keys. */
  readonly services: number;
  /**
   * Processes whose requests take much longer than those of others. Where a request is a write that fails if another was first, one of
   * them may wait for a pause of the others. Of a key that is only ever held alone nobody writes while a grant is not confirmed.
   */
  readonly far: ReadonlySet<string>;
}

/**
 * docs/guarantees.md, liveness: a caller is not starved by others that keep coming after it. Counts the owners that were granted the key
 * while the caller waited, and whose first caller had asked after it. Local hand-offs of one owner are one turn.
 */
export function checkOvertaken(history: History, times: OvertakenTimes): readonly Violation[] {
  return history.calls.flatMap((call) => {
    const [key] = call.keys;
    if (times.far.has(call.process) && !isHeldAlone(history, key)) return [];
    if (key === undefined || call.keys.length > 1 || call.isCrashed || call.call.includes('.')) return [];
    const heldAt = call.settledAt ?? history.endedAt;
    const joinedBy = call.askedAt + HANDSHAKES * times.roundTripMs;
    const calmFrom = Math.max(joinedBy, repairedAt(history, heldAt, times.repairMs));
    if (calmFrom >= heldAt) return [];
    const turns = ownersAfter(history, { ...call, key }, calmFrom, heldAt);
    const most = times.services * (ROUNDS + ownBefore(history, { ...call, key }));
    if (turns.size <= most) return [];
    const text = `call ${call.call} of ${call.process} waits for ${key} since ${Math.round(call.askedAt)}, and ${turns.size} owners that came later have had it`;
    return [{ rule: 'progress', text }];
  });
}

function isHeldAlone({ holds }: History, key: string | undefined): boolean {
  return holds.every((it) => it.key !== key || it.claim === 'exclusive');
}

type OfOneKey = CallRecord & { readonly key: string };

function ownersAfter(history: History, call: OfOneKey, from: number, to: number): ReadonlySet<string> {
  const firsts = new Map<string, HoldRecord>();
  for (const hold of history.holds) {
    const isOther = hold.key === call.key && hold.process !== call.process && hold.owner !== undefined;
    if (isOther && !firsts.has(hold.owner as string)) firsts.set(hold.owner as string, hold);
  }
  const later = [...firsts].filter(
    ([, hold]) => hold.from > from && hold.from < to && askedAt(history, hold) > from,
  );
  return new Set(later.map(([owner]) => owner));
}

function askedAt({ calls }: History, { call, process, from }: HoldRecord): number {
  return calls.find((it) => it.call === call && it.process === process)?.askedAt ?? from;
}

/** Callers of its own process that wait or hold when it asks: with another claim or lease each may need a turn of its own. */
function ownBefore({ calls }: History, { process, key, askedAt: at }: OfOneKey): number {
  return calls.filter(
    (it) =>
      it.process === process && it.keys.includes(key) && it.askedAt < at && (it.settledAt ?? Infinity) > at,
  ).length;
}

function repairedAt({ pauses, disturbances, tooFewReplicas }: History, by: number, repairMs: number): number {
  const ends = [
    ...pauses.map((it) => ({ at: it.from, to: it.to })),
    ...disturbances.map((it) => ({ at: it.at, to: it.to })),
    ...tooFewReplicas.map((at) => ({ at, to: at })),
  ];
  return Math.max(-Infinity, ...ends.filter(({ at }) => at <= by).map(({ to }) => to + repairMs));
}
