import type { LockEvent } from '../lock/events/lock.events.js';

/** Not those of every call, of which an application has thousands in a second, and not those of the boot. */
const IS_SHOWN: Readonly<Record<LockEvent['type'], boolean>> = {
  asked: false,
  acquired: false,
  released: false,
  abandoned: true,
  contended: true,
  takeover: true,
  forced: true,
  suspended: true,
  resumed: true,
  lost: true,
  candidate: true,
  elected: true,
  demoted: true,
  opened: false,
  store: true,
  warning: true,
  error: true,
};

/**
 * An event as JSON tells of it; `undefined` for one that is left out.
 *
 * @param now the time of day in ms
 */
export function eventView(event: LockEvent, now: number): object | undefined {
  if (!IS_SHOWN[event.type]) return undefined;
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
