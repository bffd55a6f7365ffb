import type { LockRow } from '../../sql-row.js';

/** Client ids are random, so that only a client that may read the table can forge a notification. PGlite quotes no names. */
export function channelOf(clientId: string): string {
  return `nest_lock_${channelId(clientId)}`;
}

/** A client in the column `clients`, and in what a statement tells. */
export function channelId(clientId: string): string {
  return clientId.replaceAll('-', '');
}

/** A notification as a statement has written it: the row, or only its name where the row is too long. */
type Notified = { readonly name: string; readonly row?: LockRow };

/** @returns `undefined` for what no statement of ours writes: any client may notify */
export function notifiedBy(payload: string): Notified | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(payload);
  } catch {
    return undefined;
  }
  if (!Array.isArray(parsed) || typeof parsed[0] !== 'string') return undefined;
  const [name, version, state, last, at, notes, now] = parsed as [string, ...unknown[]];
  if (parsed.length === 1) return { name };
  const isRow =
    [version, last, at, now].every(Number.isSafeInteger) &&
    (state === null || typeof state === 'string') &&
    typeof notes === 'string';
  return isRow ? { name, row: { version, state, last, at, notes, now } as LockRow } : undefined;
}
