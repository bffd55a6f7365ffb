import type { History } from './history.js';

/** Connections are replaced by then, and what was lost with one was sent again. */
const REPAIR_MS = 5000;

/** True times, in ms. */
interface Span {
  readonly from: number;
  readonly to: number;
}

/** Processes that have ever asked for the key by then: what they send, and what is sent to them, may decide who has it. */
export function processesOf({ calls }: History, key: string, by: number): ReadonlySet<string> {
  return new Set(
    calls.flatMap(({ keys, askedAt, process }) => (keys.includes(key) && askedAt <= by ? [process] : [])),
  );
}

/**
 * Whether one of these processes felt a fault during the span: its messages were kept, its connections broken, or the servers did not
 * serve everybody. What happens to the messages of others they do not feel, and a force keeps nothing from anybody.
 */
export function haveFelt(
  { disturbances }: History,
  processes: ReadonlySet<string>,
  { from, to }: Span,
): boolean {
  return disturbances.some((it) => {
    if (it.kind === 'force') return false;
    if (it.process !== undefined && !processes.has(it.process)) return false;
    // A connection that is silent for good brings no notification any more.
    const until = it.kind === 'lose' ? Infinity : Math.max(it.at, it.to) + REPAIR_MS;
    return it.at <= to && until >= from;
  });
}

/** Whether one of these processes stood still, or had a clock set, during the span. */
export function havePaused({ pauses }: History, processes: ReadonlySet<string>, { from, to }: Span): boolean {
  return pauses.some((it) => processes.has(it.process) && it.from <= to && it.to >= from);
}
