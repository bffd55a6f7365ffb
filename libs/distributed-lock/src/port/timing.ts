import type { LockSnapshot, LockStore, UnreadableKey } from './lock-store.js';
import { LockStoreError } from './lock.errors.js';

/** Two clocks may differ in speed by 1 %; a timer may be late by 20 ms. */
const DRIFT = 0.01;
const TIMER_SLACK_MS = 20;
/** Long leases need no larger margin: 1 s per hour is 280 ppm, and quartz clocks drift less than that. */
const LARGEST_MARGIN_MS = 1000;

/**
 * Until when a holder may believe in its lease, on the clock that `startedAt` was read from.
 *
 * @param startedAt when the request was sent: the store started the lease at that moment or later, so the holder gives
 * up no later than the store does
 */
export function leaseValidity(startedAt: number, leaseMs: number): number {
  return startedAt + leaseMs - leaseMargin(leaseMs);
}

/** The margin in ms that a holder takes off its lease, to give up before the store does. At most a fifth of the lease. */
export function leaseMargin(leaseMs: number): number {
  return Math.min(leaseMs / 5, TIMER_SLACK_MS + leaseMs * DRIFT, LARGEST_MARGIN_MS);
}

/** How far two clocks may have run apart within `ms`. */
export function driftWithin(ms: number): number {
  return ms * DRIFT;
}

/** Where no notification comes from the back end, a store reads the state of what its client holds this often. */
export const HELD_POLL_MS = 250;

/**
 * The longest time from when the back end has a notice for a holder until the holder's process has it, if that process reaches
 * the back end: a reading that was executed just before may be under way, then the store pauses, then it reads again.
 *
 * @param commandTimeoutMs of the holder's store: a reading that takes longer has failed. One longer request, or a message that is
 * lost or that the back end brings later, is a fault.
 */
export function maxNoticeMs(commandTimeoutMs: number): number {
  return HELD_POLL_MS + 2 * commandTimeoutMs;
}

/** A waiter rechecks at least this often, whatever notifications it gets. */
export const RECHECK_MS = 1000;
/** The store drops the ticket of a waiter that has not rechecked for this long, because it has left or crashed. */
export const SILENT_WAITER_MS = 3 * RECHECK_MS;
/** A recheck is sent this long after the end of the holder's lease, so that it finds the lease expired. */
const PAST_EXPIRY_MS = 5;

/** When a waiter rechecks: as soon as the holder's lease has expired, and at the latest after `everyMs`. */
export function recheckAfter(remainingMs: number, everyMs = RECHECK_MS): number {
  return Math.min(remainingMs + PAST_EXPIRY_MS, everyMs);
}

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
    methods: ['publishHolderEntry', 'readHolderEntries'],
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

/**
 * Inspects the keys of a page of `list`. A key that the store refuses to read, as one in the format of another release, does not
 * hide the others: the page names it in `unreadable`.
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
