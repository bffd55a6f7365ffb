import type { LockSnapshot, UnreadableKey } from './lock-store.js';
import { LockStoreError } from './lock.errors.js';

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
