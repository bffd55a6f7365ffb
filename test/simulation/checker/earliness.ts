import { LockWaitTimeoutError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import { isSleepHidden } from '../history/hidden-sleep.js';
import type { History, Violation } from '../history/history.js';

/** Clocks differ by less than 1 %, and a timer may be early by some ms. */
const SLACK_MS = 10;
/** The library notices shorter sleeps late: with the next longer one. */
const UNNOTICED_SLEEP_MS = 1000;

/**
 * A call that says it has waited for `waitMs` has done so: by the uptime of its machine, which counts sleep. One that is behind
 * `maxWaiting` others does not wait.
 */
export function checkEarliness(history: History): readonly Violation[] {
  return history.calls.flatMap((it) => {
    const { call, process, waitMs, error, askedAtUptime, settledAtUptime = Infinity } = it;
    const waited = settledAtUptime - askedAtUptime;
    const own = history.pauses.filter((pause) => pause.process === process);
    const sleptMs = own.reduce((sum, { kind, from, to }) => sum + (kind === 'suspend' ? to - from : 0), 0);
    const isHidden = isSleepHidden(history, process, it.settledAt ?? history.endedAt);
    const slackMs = SLACK_MS + (isHidden ? sleptMs : Math.min(sleptMs, UNNOTICED_SLEEP_MS));
    if (
      !(error instanceof LockWaitTimeoutError) ||
      error.waiting !== undefined ||
      waited * 1.01 + slackMs >= waitMs
    )
      return [];
    const text = `call ${call} of ${process} was refused after ${Math.round(waited)} ms of its waitMs of ${waitMs}`;
    return [{ rule: 'earliness', text }];
  });
}
