import type { LockStore } from '../../port/lock-store.js';
import { outside } from '../../async-context/outside.js';

/** The same store. Its commands run outside of every async context, because it may repeat them and open connections. */
export function outsideStore(store: LockStore): LockStore {
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
    acquire: (request) => outside(() => store.acquire(request)),
    ...(acquireAll && { acquireAll: (requests) => outside(() => acquireAll(requests)) }),
    renew: (renewals) => outside(() => store.renew(renewals)),
    release: (request) => outside(() => store.release(request)),
    inspect: (key) => outside(() => store.inspect(key)),
    forceRelease: (key) => outside(() => store.forceRelease(key)),
    close: () => outside(() => store.close()),
  };
}
