import type { LockStore } from '../../port/lock-store.js';
import { outside } from '../../async/outside.js';

/** The same store. Its commands run outside of every async context, because it may repeat them and open connections. */
export function outsideStore(store: LockStore): LockStore {
  const { name, address, clientId, commandTimeoutMs, notifications$ } = store;
  const acquireAll = store.acquireAll?.bind(store);
  return {
    name,
    ...(address !== undefined && { address }),
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
