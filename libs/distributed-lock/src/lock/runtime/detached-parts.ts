import type { LockStore } from '../../port/lock-store.js';
import { detached } from '../../async-context/detached.js';
import { Observable } from 'rxjs';
import type { Clock } from '../../time/clock.js';

/** The same store. Its commands run outside of every async context, because it may repeat them and open connections. */
export function detachedStore(store: LockStore): LockStore {
  const { name, clientId, commandTimeoutMs, notifications$ } = store;
  const acquireAll = store.acquireAll?.bind(store);
  return {
    name,
    get address() {
      return store.address;
    },
    attempted: store.attempted,
    clientId,
    commandTimeoutMs,
    notifications$,
    acquire: (request) => detached(() => store.acquire(request)),
    ...(acquireAll && { acquireAll: (requests) => detached(() => acquireAll(requests)) }),
    renew: (renewals) => detached(() => store.renew(renewals)),
    release: (request) => detached(() => store.release(request)),
    inspect: (key) => detached(() => store.inspect(key)),
    forceRelease: (key) => detached(() => store.forceRelease(key)),
    close: () => detached(() => store.close()),
  };
}

/** The same clock. Its timers run outside of every async context. */
export function detachedClock(clock: Clock): Clock {
  return {
    now: () => clock.now(),
    ...(clock.timeOfDay && { timeOfDay: () => clock.timeOfDay?.() as number }),
    ...(clock.nextTurn && { nextTurn: (task) => clock.nextTurn?.(task) }),
    after: (ms, task) => detached(() => clock.after(ms, task)),
    interval: (ms) => new Observable((out) => detached(() => clock.interval(ms).subscribe(out))),
  };
}
