import type { LockStore } from './lock-store.js';
import { LockStoreError } from './lock.errors.js';

/** What a store may have beside locks, with the methods that it has for it. Another store refuses such calls. */
export const CAPABILITIES = {
  force: {
    methods: ['forceRelease'],
    refusal: 'cannot release a lock by force. The lock ends with its lease.',
  },
  takeover: {
    methods: ['announceTakeover', 'forceRelease'],
    refusal: "cannot take a lock over. Leave out onBusy: 'takeover', or use another store.",
  },
  names: {
    methods: ['introduce', 'readIntroductions'],
    refusal: 'cannot tell who its clients are.',
  },
  list: {
    methods: ['list'],
    refusal:
      'cannot list its keys. Ask it for a key by locks.inspect(key), or each process for locks.held().',
  },
} as const;

/** Groups of methods that a store may leave out. A service refuses each call that needs a group its store lacks. */
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

/** @throws LockStoreError for a store that lacks the capability */
export function storeThatCan<C extends StoreCapability>(store: LockStore, capability: C): StoreThatCan<C> {
  if (canStore(store, capability)) return store;
  throw cannotError(store.name, capability);
}

export function cannotError(storeName: string, capability: StoreCapability): LockStoreError {
  return new LockStoreError(
    `The store ${storeName} ${CAPABILITIES[capability].refusal}`,
    undefined,
    'refused',
  );
}
