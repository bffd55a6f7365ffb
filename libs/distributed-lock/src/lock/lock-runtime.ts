import type { DeadlineTimer } from '../time/deadline-timer.js';
import type { Clock } from '../time/clock.js';
import type { LockEvent } from './events/lock.events.js';
import type { LockStore } from '../port/lock-store.js';

/** The members that all parts of one lock service share. */
export interface LockRuntime {
  /** Tells one service's holds from another's in the same async flow. */
  readonly scope: symbol;
  readonly clock: Clock;
  readonly deadlines: DeadlineTimer;
  readonly store: LockStore;
  /** The number of a new call, for its events. */
  nextCall(): number;
  emit(event: LockEvent): void;
}
