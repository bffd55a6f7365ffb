import type { SimProcess } from '../kernel/process.js';
import type { History, HoldRecord, Pause } from './history.js';
import { forcedAfterMs, maxNoticeMs, type Taker, takersOf } from './takeovers.js';

/** A shorter sleep may go uncounted. */
const MIN_SLEEP_MS = 105;
const SLACK_MS = 2;

/** A holder is told that its lock is taken over. The shortest grace counts, by its monotonic clock and by the uptime of its machine. */
export function beginGrace(
  record: HoldRecord,
  process: SimProcess,
  { graceMs, by }: { readonly graceMs: number; readonly by: string },
  history: History,
): void {
  checkPromise(record, process, { graceMs, by }, history);
  const { trueNow, monotonic, uptime } = process;
  record.toldAt ??= trueNow;
  record.graceUntilOwn = Math.min(record.graceUntilOwn ?? Infinity, monotonic + graceMs);
  const lateMs = MIN_SLEEP_MS + graceMs / 100;
  record.graceUntilUptime = Math.min(record.graceUntilUptime ?? Infinity, uptime + graceMs + lateMs);
}

/** docs/guarantees.md, a takeover: the lock stays valid until the grace is over that its holder was told, or that of another takeover. */
function checkPromise(
  record: HoldRecord,
  process: SimProcess,
  { graceMs, by }: { readonly graceMs: number; readonly by: string },
  history: History,
): void {
  const { call, key } = record;
  const until = process.monotonic + graceMs;
  const promised = (record.promisedUntilOwn ??= new Map<string, number>());
  const before = promised.get(by) ?? Infinity;
  promised.set(by, Math.min(before, until));
  const lateMs = maxNoticeMs(history.commandTimeoutMs);
  if (until >= before || until <= before - lateMs + SLACK_MS) return;
  // Several calls of one application have the same name. One of them gives its whole grace, not the rest of another's.
  if (takersOf(history, key).some((it) => it.graceMs === graceMs)) return;
  if (hasClockJumped(history, process, record.from)) return;
  const text = `call ${call} of ${process.name} is told of the takeover of ${key} once more, and loses ${Math.round(before - until)} ms of its grace`;
  history.violate('loss', text);
}

/**
 * docs/guarantees.md, a takeover: the call waits for the holder, and then takes the lock by force. Nobody works under the rest of a minimum
 * hold, so that it need not wait for longer than the grace.
 */
export function checkForced(process: SimProcess, { key, holder, owner }: Forced, history: History): void {
  const isRest = holder?.includes(':-') === true;
  const sentSince = process.trueNow - history.commandTimeoutMs;
  const own = takersOf(history, key).filter(
    (it) => it.process === process.name && !it.isCrashed && mayBeOf(it, { key, owner, sentSince }, history),
  );
  const early = own.map(({ askedAtOwn, graceMs }) => {
    const leastMs = isRest ? graceMs : forcedAfterMs(graceMs, history.commandTimeoutMs);
    return askedAtOwn + leastMs - process.monotonic;
  });
  const earlyMs = Math.min(...early);
  const askedAt = Math.min(...own.map((it) => it.askedAt));
  if (own.length === 0 || earlyMs <= SLACK_MS || hasClockJumped(history, process, askedAt)) return;
  history.violate(
    'exclusion',
    `${process.name} takes ${key} over by force ${Math.round(earlyMs)} ms before its holder must have been told`,
  );
}

/** A lock that was freed by force, and the owner that has freed it for its calls. */
interface Forced {
  readonly key: string;
  readonly holder: string | undefined;
  readonly owner: string;
}

/**
 * Whether a call may have asked for this force: it waited when the force was sent, or it has got its lock as this owner. The store may tell
 * the owner of its grant before it replies to the force.
 */
function mayBeOf(
  taker: Taker,
  { key, owner, sentSince }: Omit<Forced, 'holder'> & { readonly sentSince: number },
  { holds }: History,
): boolean {
  if ((taker.settledAt ?? Infinity) >= sentSince) return true;
  return holds.some(
    (it) => it.owner === owner && it.key === key && it.call === taker.call && it.process === taker.process,
  );
}

const JUMPS: readonly Pause['kind'][] = ['suspend', 'clock', 'rate'];

function hasClockJumped({ pauses }: History, { name }: SimProcess, since: number): boolean {
  return pauses.some((it) => it.process === name && it.to >= since && JUMPS.includes(it.kind));
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
