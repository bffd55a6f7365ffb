import type { LockStore } from '../../port/lock-store.js';
import { detached } from '../../async-context/detached.js';

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
