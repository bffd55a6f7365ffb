import { LockWaitTimeoutError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { History, Violation } from '../history/history.js';

/** Clocks differ by less than 1 %, and a timer may be early by some ms. */
const SLACK_MS = 10;
/** The library notices shorter sleeps late: with the next longer one. */
const UNNOTICED_SLEEP_MS = 1000;

/** A call that says it has waited for `waitMs` has done so: by the uptime of its machine, which counts sleep. */
export function checkEarliness({ calls, pauses }: History): readonly Violation[] {
  return calls.flatMap(({ call, process, waitMs, error, askedAtUptime, settledAtUptime = Infinity }) => {
    const waited = settledAtUptime - askedAtUptime;
    const hasSlept = pauses.some((it) => it.process === process && it.kind === 'suspend');
    const slackMs = SLACK_MS + (hasSlept ? UNNOTICED_SLEEP_MS : 0);
    if (!(error instanceof LockWaitTimeoutError) || waited * 1.01 + slackMs >= waitMs) return [];
    const text = `call ${call} of ${process} was refused after ${Math.round(waited)} ms of its waitMs of ${waitMs}`;
    return [{ rule: 'earliness', text }];
  });
}
