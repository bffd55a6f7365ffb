import type { LockSnapshot, LockStore, UnreadableKey } from './lock-store.js';
import { LockStoreError } from './lock.errors.js';

/**
 * The optional abilities of a store. Each has the names of its methods, and the error text for a call that needs it from a store without
 * these methods.
 */
export const CAPABILITIES = {
  force: {
    methods: ['forceRelease'],
    refusal: 'cannot release a lock by force. The lock ends with its lease.',
  },
  takeover: {
    methods: ['announceTakeover', 'forceRelease'],
    refusal: "cannot take a lock over. Leave out onBusy: 'takeover', or use another store.",
  },
  attach: {
    methods: ['attach'],
    refusal: 'cannot pass a lock to another process. Use Redis or a SQL database for it.',
  },
  names: {
    methods: ['publishHolderEntry', 'readHolderEntries'],
    refusal: 'cannot tell who its clients are.',
  },
  list: {
    methods: ['list'],
    refusal:
      'cannot list its keys. Ask it for a key by locks.inspect(key), or each process for locks.held().',
  },
} as const;

/** The name of a group of methods that a store may lack. */
export type StoreCapability = keyof typeof CAPABILITIES;

/** A store that has the methods of a capability. */
export type StoreThatCan<C extends StoreCapability> = LockStore &
  Required<Pick<LockStore, (typeof CAPABILITIES)[C]['methods'][number]>>;

export function canStore<C extends StoreCapability>(
  store: LockStore,
  capability: C,
): store is StoreThatCan<C> {
  return CAPABILITIES[capability].methods.every((method) => typeof store[method] === 'function');
}

/** Narrows a store to one with the capability. @throws LockStoreError if the store lacks it */
export function storeThatCan<C extends StoreCapability>(store: LockStore, capability: C): StoreThatCan<C> {
  if (canStore(store, capability)) return store;
  const { refusal } = CAPABILITIES[capability];
  throw new LockStoreError(`The store ${store.name} ${refusal}`, undefined, 'refused');
}

/**
 * Inspects the keys of one page of `list`. If the store refuses to read a key, because another release has written it, that does not
 * fail the page: the key is listed in `unreadable`.
 *
 * @throws whatever else `inspect` rejects with
 */
export async function snapshotsOf<Snapshot extends LockSnapshot>(
  keys: readonly string[],
  inspect: (key: string) => Promise<Snapshot | null>,
): Promise<{ readonly entries: readonly Snapshot[]; readonly unreadable: readonly UnreadableKey[] }> {
  const unreadable: UnreadableKey[] = [];
  const snapshots = await Promise.all(
    keys.map((key) =>
      inspect(key).catch((error: unknown) => {
        if (!(error instanceof LockStoreError) || error.reason !== 'refused') throw error;
        unreadable.push({ key, message: error.message });
        return null;
      }),
    ),
  );
  return { entries: snapshots.filter((snapshot) => snapshot !== null), unreadable };
}
