import type { CallRecord, History, Violation } from '../history/history.js';

export interface Deadlines {
  readonly commandTimeoutMs: number;
  /** So many commands a call may wait for when the network fails. */
  readonly commandsPerCall: number;
  readonly commandsInCalm: number;
  /** A process sends its requests about one key one after the other. */
  readonly sendsInOrder: boolean;
}

/** Timers are late by a little, and a call that is refused has still to be told. */
const SLACK_MS = 100;

/** docs/guarantees.md, liveness: every call settles by its `waitMs` and a command, by the clock of its process while that runs. */
export function checkLateness(history: History, deadlines: Deadlines): readonly Violation[] {
  const { commandTimeoutMs, commandsPerCall, commandsInCalm, sendsInOrder } = deadlines;
  return history.calls.flatMap((call) => {
    const { waitMs, askedAt, settledAt = Infinity, askedAtOwn, settledAtOwn } = call;
    if (settledAtOwn === undefined || call.isCrashed) return [];
    const isDisturbed = history.disturbances.some(
      (it) => it.at <= settledAt && Math.max(it.to, it.at) + 3 * commandTimeoutMs >= askedAt,
    );
    const hasPaused = history.pauses.some(
      ({ process, from, to }) =>
        process === call.process && from <= settledAt && to >= askedAt - commandTimeoutMs,
    );
    const perRequest = isDisturbed || hasPaused ? commandsPerCall : commandsInCalm;
    // One that may be under way when the call comes, and one for each of its keys.
    const requests = 1 + call.keys.length;
    const ahead = sendsInOrder ? 2 * besides(history, call) : 0;
    const commands = perRequest * requests + ahead;
    const lateMs = settledAtOwn - askedAtOwn - waitMs - pausedMs(history, call);
    if (lateMs <= commands * commandTimeoutMs + SLACK_MS) return [];
    const text = `call ${call.call} of ${call.process} settled ${Math.round(lateMs)} ms after its waitMs of ${waitMs}`;
    return [{ rule: 'lateness', text }];
  });
}

/** How many other calls of its process have asked for one of its keys meanwhile, or have held it. */
function besides(
  { calls, holds }: History,
  { call, process, keys, askedAt, settledAt = Infinity }: CallRecord,
): number {
  const meets = (
    it: { readonly call: string; readonly process: string },
    from: number,
    to: number,
  ): boolean => it.process === process && it.call !== call && from <= settledAt && to >= askedAt;
  const own = new Set<string>();
  for (const it of calls)
    if (it.keys.some((key) => keys.includes(key)) && meets(it, it.askedAt, it.settledAt ?? Infinity))
      own.add(it.call);
  for (const it of holds)
    if (keys.includes(it.key) && meets(it, it.from, it.endedAt ?? Infinity)) own.add(it.call);
  return own.size;
}

function pausedMs({ pauses }: History, { process, askedAt, settledAt = Infinity }: CallRecord): number {
  const own = pauses.filter((it) => it.process === process);
  return own.reduce(
    (sum, { from, to }) => sum + Math.max(0, Math.min(to, settledAt) - Math.max(from, askedAt)),
    0,
  );
}
