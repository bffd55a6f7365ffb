import type { SimProcess } from '../kernel/process.js';
import type { History, HoldRecord } from './history.js';

/** A shorter sleep may go uncounted. */
const MIN_SLEEP_MS = 105;
const SLACK_MS = 2;

/** A holder is told that its lock is taken over. The shortest grace counts, by its monotonic clock and by the uptime of its machine. */
export function beginGrace(
  record: HoldRecord,
  { trueNow, monotonic, uptime }: SimProcess,
  graceMs: number,
): void {
  record.toldAt ??= trueNow;
  record.graceUntilOwn = Math.min(record.graceUntilOwn ?? Infinity, monotonic + graceMs);
  const lateMs = MIN_SLEEP_MS + graceMs / 100;
  record.graceUntilUptime = Math.min(record.graceUntilUptime ?? Infinity, uptime + graceMs + lateMs);
}

/** docs/guarantees.md, a takeover: a later one does not prolong the grace, nor does a sleep of the machine that its clocks show. */
export function checkGrace(
  record: HoldRecord,
  { monotonic, uptime }: SimProcess,
  validForMs: number,
  history: History,
): void {
  const { call, process, key, graceUntilOwn = Infinity, graceUntilUptime = Infinity } = record;
  if (validForMs <= 0) return;
  const isClockSet = history.pauses.some(
    (it) => it.process === process && (it.kind === 'clock' || it.kind === 'rate'),
  );
  const byUptime = isClockSet ? -Infinity : uptime + validForMs - graceUntilUptime;
  const lateMs = Math.max(monotonic + validForMs - graceUntilOwn - SLACK_MS, byUptime);
  if (lateMs <= 0) return;
  const text = `call ${call} of ${process} believes in ${key} for ${Math.round(lateMs)} ms longer than the grace of its takeover`;
  history.violate('belief', text);
}
