import type { CallRecord, History, Violation } from '../history/history.js';

export interface Deadlines {
  readonly commandTimeoutMs: number;
  /** So many commands a call may wait for when the network fails. */
  readonly commandsPerCall: number;
  readonly commandsInCalm: number;
}

/** Timers are late by a little, and a call that is refused has still to be told. */
const SLACK_MS = 100;

/** docs/guarantees.md, liveness: every call settles by its `waitMs` and a command, by the clock of its process while that runs. */
export function checkLateness(history: History, deadlines: Deadlines): readonly Violation[] {
  const { commandTimeoutMs, commandsPerCall, commandsInCalm } = deadlines;
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
    // Several keys are asked for together, and then one by one.
    const commands =
      (isDisturbed || hasPaused ? commandsPerCall : commandsInCalm) *
      (call.keys.length > 1 ? 2 + call.keys.length : 2);
    const lateMs = settledAtOwn - askedAtOwn - waitMs - pausedMs(history, call);
    if (lateMs <= commands * commandTimeoutMs + SLACK_MS) return [];
    const text = `call ${call.call} of ${call.process} settled ${Math.round(lateMs)} ms after its waitMs of ${waitMs}`;
    return [{ rule: 'lateness', text }];
  });
}

function pausedMs({ pauses }: History, { process, askedAt, settledAt = Infinity }: CallRecord): number {
  const own = pauses.filter((it) => it.process === process);
  return own.reduce(
    (sum, { from, to }) => sum + Math.max(0, Math.min(to, settledAt) - Math.max(from, askedAt)),
    0,
  );
}
