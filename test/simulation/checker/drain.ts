import { isLockError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { CallRecord, Drain, History, HoldRecord, Violation } from '../history/history.js';

/** A refusal asks no store. Timers of a process may be late by a little. */
const AT_ONCE_MS = 2;

/**
 * docs/guarantees.md, in your process: once an application closes, a call is refused at once, unless its async flow holds a lock.
 * That one may acquire others until the grace is over, so that its work can end.
 */
export function checkDrain(history: History): readonly Violation[] {
  const tooSoon = history.holds.flatMap((hold) => lostTooSoon(history, hold));
  const calls = history.drains.flatMap((drain) => {
    const later = history.calls.filter(
      (it) => it.process === drain.process && it.askedAt > drain.at && !it.needsNoLock,
    );
    return later.flatMap((call) => {
      const text = call.under.some((hold) => isHeldThrough(hold, call))
        ? wronglyRefused(call, drain)
        : wronglyAdmitted(history, call);
      return text === undefined
        ? []
        : [{ rule: 'errors', text: `call ${call.call} of ${call.process} ${text}` }];
    });
  });
  return [...tooSoon, ...calls];
}

/** Who holds when its application closes has the whole grace to end its work. */
function lostTooSoon(
  { drains, pauses }: History,
  { lostBy, endedAt = Infinity, process, call, key }: HoldRecord,
): readonly Violation[] {
  const drain = drains.find((it) => it.process === process && endedAt >= it.at - AT_ONCE_MS);
  if (lostBy !== 'shutdown' || !drain || endedAt >= drain.graceUntil) return [];
  if (pauses.some((it) => it.process === process && it.to >= drain.at && it.from <= endedAt)) return [];
  const text = `call ${call} of ${process} loses ${key} ${Math.round(endedAt - drain.at)} ms after its services were told to close, and their grace is ${drain.graceMs} ms`;
  return [{ rule: 'loss', text }];
}

function isHeldThrough({ endedAt = Infinity }: { readonly endedAt?: number }, call: CallRecord): boolean {
  return endedAt > (call.settledAt ?? Infinity) || (endedAt === Infinity && call.settledAt === undefined);
}

function wronglyRefused(
  { error, settledAt = Infinity }: CallRecord,
  { graceUntil }: Drain,
): string | undefined {
  if (!isShutdown(error) || settledAt >= graceUntil) return undefined;
  return 'is refused by a drain, although its flow holds a lock and the grace is not over';
}

function wronglyAdmitted({ pauses }: History, call: CallRecord): string | undefined {
  const { askedAt, settledAt = Infinity, process, isCrashed, under, error } = call;
  const hasPaused = pauses.some((it) => it.process === process && it.from <= settledAt && it.to >= askedAt);
  // It was under a lock when it asked, and lost that one meanwhile.
  const wasUnder = under.some(({ endedAt = Infinity }) => endedAt >= askedAt);
  if (isCrashed || hasPaused || wasUnder) return undefined;
  if (isShutdown(error) && settledAt - askedAt <= AT_ONCE_MS) return undefined;
  return 'is not refused at once, although its services were told to close before';
}

function isShutdown(error: unknown): boolean {
  return isLockError(error) && error.code === 'LOCK_SHUTDOWN';
}
