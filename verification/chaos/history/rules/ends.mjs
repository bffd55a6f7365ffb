import { SLACK_MS } from '../../constants.mjs';
import { overlapMs } from '../spans.mjs';

/** Longest time to live of what a line leaves behind. */
const KEEP_MS = 10_000;
/** Less than the two seconds for which ioredis may keep a timer. */
const EXIT_MS = 1500;

/** Processes that were asked to close did, in time, by themselves and without a word on stderr. */
export function exits({ apps, settings }) {
  const findings = [];
  const { graceMs, commandTimeoutMs } = settings;
  for (const { name, exit, closingAt, closedAt, tookMs, endedAt, pauses } of apps.values()) {
    if (exit?.errors) findings.push(`${name} wrote to stderr: ${exit.errors.slice(0, 2000)}`);
    if (exit && !exit.expected)
      findings.push(`${name} ended by itself, code ${exit.code}, signal ${exit.signal}`);
    if (closingAt === undefined) continue;
    if (closedAt === undefined) findings.push(`${name} was asked to close and did not`);
    else {
      const pausedMs = overlapMs(pauses, closingAt, closedAt);
      if (tookMs - pausedMs > graceMs + 2 * commandTimeoutMs + SLACK_MS)
        findings.push(`${name} took ${tookMs.toFixed(0)} ms to close`);
      if (exit?.signal || endedAt - closedAt > EXIT_MS)
        findings.push(
          `${name} closed, and something kept it alive for ${(endedAt - closedAt).toFixed(0)} ms`,
        );
    }
  }
  return findings;
}

/** Nothing is left at the end: no lock, and no key without an end of its life. */
export function remains({ remains: found, settings }) {
  return found.flatMap(({ keys }) =>
    keys.flatMap(({ name, remainingMs }) => {
      if (remainingMs === -1) return [`"${name}" is left, without an end of its life`];
      if (settings.keys.includes(name))
        return [`"${name}" is left: nobody holds it, for ${remainingMs} ms more`];
      const isOfLine = name.startsWith('nest_lock_queue') || name.startsWith('nest_lock_meta');
      return isOfLine && remainingMs > KEEP_MS ? [`"${name}" is left for ${remainingMs} ms`] : [];
    }),
  );
}

/** A trial whose faults could not be made proves nothing. */
export function injections({ failedFaults, calls }) {
  const failed = failedFaults.map(({ kind, error }) => `the fault ${kind} could not be made: ${error}`);
  return calls.some(({ enteredAt }) => enteredAt !== undefined)
    ? failed
    : [...failed, 'nobody was ever let in'];
}
