import type { LockEvent } from '../lock/events/lock.events.js';

/** Events of every call, of which an application has thousands in a second, and those of the boot. */
const LEFT_OUT: ReadonlySet<LockEvent['type']> = new Set(['asked', 'acquired', 'released', 'opened']);

/**
 * An event as JSON tells of it; `undefined` for one that is left out.
 *
 * @param now the time of day in ms
 */
export function eventView(event: LockEvent, now: number): object | undefined {
  if (LEFT_OUT.has(event.type)) return undefined;
  const at = new Date(now);
  if (event.type === 'store') {
    const { state, ...rest } = event;
    const { isUp, node } = state;
    return { at, ...rest, isUp, node, ...(!isUp && { message: state.error.message }) };
  }
  if (!('error' in event)) return { at, ...event };
  const { error, ...rest } = event;
  return { at, ...rest, message: error instanceof Error ? error.message : 'not an Error' };
}
