import type { LockStore } from '../port/lock-store.js';
import { outside } from '../async/outside.js';

/** The same store, whose commands belong to no async context: it may repeat them, and open connections for them. */
export function outsideStore(store: LockStore): LockStore {
  const { name, address, clientId, commandTimeoutMs, notifications$: pushes$ } = store;
  const acquireAll = store.acquireAll?.bind(store);
  return {
    name,
    ...(address !== undefined && { address }),
    clientId,
    commandTimeoutMs,
    notifications$: pushes$,
    acquire: (ask) => outside(() => store.acquire(ask)),
    ...(acquireAll && { acquireAll: (asks) => outside(() => acquireAll(asks)) }),
    renew: (renewals) => outside(() => store.renew(renewals)),
    release: (end) => outside(() => store.release(end)),
    inspect: (key) => outside(() => store.inspect(key)),
    forceRelease: (key) => outside(() => store.forceRelease(key)),
    close: () => outside(() => store.close()),
  };
}
