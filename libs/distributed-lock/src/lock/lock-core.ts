import type { Alarm } from './alarm.js';
import type { Clock } from './clock.js';
import type { LockEvent } from './lock.events.js';
import type { LockStore } from './lock-store.js';

/** What the parts of one lock service share: leaves only, nothing that knows the parts. */
export interface LockCore {
  /** Tells one service's holds from another's in the same async flow. */
  readonly scope: symbol;
  readonly clock: Clock;
  readonly alarm: Alarm;
  readonly store: LockStore;
  /** Numbers a call, for its events. */
  nextCall(): number;
  emit(event: LockEvent): void;
}
