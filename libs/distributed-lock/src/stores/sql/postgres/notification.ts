import type { LockRow } from '../sql-row.js';

/** A notification as a statement has written it: the row, or only its name where the row is too long. */
export type Notified = { readonly name: string; readonly row?: LockRow };

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
