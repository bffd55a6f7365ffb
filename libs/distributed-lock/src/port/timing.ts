import type { LockSnapshot, LockStore, UnreadableKey } from './lock-store.js';
import { LockStoreError } from './lock.errors.js';

/** We assume that two clocks differ in speed by at most 1 %, and that a timer fires at most 20 ms late. */
const DRIFT = 0.01;
const TIMER_SLACK_MS = 20;
/** Long leases need no larger margin: 1 s per hour is 280 ppm, and quartz clocks drift less than that. */
const LARGEST_MARGIN_MS = 1000;

/**
 * Until when a holder may believe that it has its lock, on the clock that `startedAt` was read from.
 *
 * @param startedAt when the request was sent: the store started the lease at that moment or later, so the holder gives up no later than
 * the store does
 */
export function leaseValidity(startedAt: number, leaseMs: number): number {
  return startedAt + leaseMs - leaseMargin(leaseMs);
}

/** The margin in ms that a holder takes off its lease, so that it gives up before the store does. At most a fifth of the lease. */
export function leaseMargin(leaseMs: number): number {
  return Math.min(leaseMs / 5, TIMER_SLACK_MS + leaseMs * DRIFT, LARGEST_MARGIN_MS);
}

/** How far two clocks may drift apart within `ms`. */
export function driftWithin(ms: number): number {
  return ms * DRIFT;
}

/** How often a store reads the state of the keys that its client holds, if the back end sends no notifications. */
export const HELD_POLL_MS = 250;

/**
 * The longest time until a holder's process has read a message that the back end has for it, such as that of a takeover, provided that
 * the process reaches the back end. For a store that reads at intervals, the worst case is: a read was executed just before the message
 * came and is still under way; then the store pauses; then it reads again.
 *
 * @param commandTimeoutMs of the holder's store: a read that takes longer has failed. A request that takes longer still, or a message
 * that the back end loses or delays, counts as a fault.
 */
export function maxNoticeMs(commandTimeoutMs: number): number {
  return HELD_POLL_MS + 2 * commandTimeoutMs;
}

/** A waiter rechecks at least this often, even if notifications come. */
export const RECHECK_MS = 1000;
/** The store drops the ticket of a waiter that has not rechecked for this long, because it has left or crashed. */
export const SILENT_WAITER_MS = 3 * RECHECK_MS;
/** A recheck is sent this long after the holder's lease should have ended, so that it finds the lease expired. */
const PAST_EXPIRY_MS = 5;

/** After how many ms a waiter rechecks: as soon as the holder's lease has expired, and at the latest after `everyMs`. */
export function recheckAfter(remainingMs: number, everyMs = RECHECK_MS): number {
  return Math.min(remainingMs + PAST_EXPIRY_MS, everyMs);
}

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
