import type { History, HoldRecord, Violation } from '../history/history.js';
import { mayBeForcedOut, mayBeTakenOver } from '../history/takeovers.js';
import { takes } from '../history/taken.js';
import { COST_A_CONNECTION, COST_NO_LOCK } from './harmless.js';

/** A renewal waits for the requests about the same key that its process sent before. The lease must last for so many round trips. */
const ROUND_TRIPS_PER_LEASE = 10;
/** A write is repeated within `commandTimeoutMs` when other clients were first, and so often that takes turns with theirs. */
const ROUND_TRIPS_PER_COMMAND = 5;

interface Times {
  readonly watchdogTimeoutMs: number;
  readonly commandTimeoutMs: number;
  readonly roundTripMs: number;
}

/** Where the lease leaves time for it, a renewal that gets no answer is repeated, on another connection. */
const COMMANDS_PER_REPEATED_RENEWAL = 6;
const RECONNECT_MS = 1500;
const OF_ONE_MESSAGE = ['lose', ...COST_A_CONNECTION];

/** docs/guarantees.md, watchdog: a lock without `leaseMs` is not lost while its process runs and the store answers in time. */
export function checkNeedlessLoss(
  history: History,
  { watchdogTimeoutMs, commandTimeoutMs, roundTripMs }: Times,
): readonly Violation[] {
  if (roundTripMs * ROUND_TRIPS_PER_LEASE > watchdogTimeoutMs) return [];
  if (roundTripMs * ROUND_TRIPS_PER_COMMAND > commandTimeoutMs) return [];
  // A nested call may share a lock of its flow that has a fixed lease.
  const lost = history.holds.filter(
    // A drain has a rule of its own.
    ({ end, leaseMs, call, lostBy }) =>
      end === 'lost' && leaseMs === undefined && !call.includes('.') && lostBy !== 'shutdown',
  );
  return lost.flatMap((hold) => {
    const { endedAt = history.endedAt } = hold;
    // A call for several keys has lost them all with the first one.
    const together = history.holds.filter((it) => it.call === hold.call && it.process === hold.process);
    if (together.some((it) => isToldOrLate(history, it) && mayBeTakenOver(history, it, endedAt))) return [];
    // Its process may have missed the notice on a connection that is silent for good, however long ago a message was lost there.
    const now = { from: endedAt, to: endedAt };
    if (together.some((it) => mayBeForcedOut(history, it, now, Infinity))) return [];
    // What happened before may still be felt for a lease.
    const from = endedAt - watchdogTimeoutMs - 3 * commandTimeoutMs;
    const most =
      COMMANDS_PER_REPEATED_RENEWAL * commandTimeoutMs + RECONNECT_MS < watchdogTimeoutMs / 2 ? 1 : 0;
    if (isDisturbed(history, together, { from, to: endedAt }, most)) return [];
    const text = `call ${hold.call} of ${hold.process} lost ${hold.key} after ${Math.round(endedAt - hold.from)} ms, and nothing had happened`;
    return [{ rule: 'loss', text }];
  });
}

/** While nothing is disturbed, each holder is told of a takeover before it loses its lock. */
function isToldOrLate({ isToldLate }: History, { toldAt }: HoldRecord): boolean {
  return isToldLate || toldAt !== undefined;
}

/** @param most so many lost messages or broken connections need not cost a lock */
function isDisturbed(
  { pauses, disturbances }: History,
  together: readonly HoldRecord[],
  span: { readonly from: number; readonly to: number },
  most: number,
): boolean {
  const all = disturbances.filter(
    (it) =>
      !COST_NO_LOCK.includes(it.kind) &&
      it.at <= span.to &&
      Math.max(it.at, it.to) >= span.from &&
      (it.kind !== 'force' || together.some((hold) => takes(it, hold))),
  );
  return (
    pauses.some((it) => it.process === together[0]?.process && it.from <= span.to && it.to >= span.from) ||
    all.length > most ||
    all.some(({ kind }) => !OF_ONE_MESSAGE.includes(kind))
  );
}
