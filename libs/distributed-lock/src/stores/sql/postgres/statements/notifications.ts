import type { LockRow } from '../../sql-row.js';

/**
 * Client ids are random, so that only a client that may read the table can forge a notification. PGlite does not quote the
 * name of a channel, so the name has no dashes.
 */
export function channelOf(clientId: string): string {
  return `nest_lock_${channelId(clientId)}`;
}

/** The id of a client as the column `clients` and the name of its channel have it. */
export function channelId(clientId: string): string {
  return clientId.replaceAll('-', '');
}

/** A row as `rowText` has written it. */
interface NamedRow {
  readonly name: string;
  readonly row: LockRow;
}

export function namedRowIn(text: string): NamedRow {
  return namedRow(JSON.parse(text) as RowText);
}

/**
 * The row of which a statement notifies, or only its name if the row is too long.
 *
 * @returns `undefined` for what no statement of ours writes: any client may notify
 */
export function notifiedBy(payload: string): NamedRow | Pick<NamedRow, 'name'> | undefined {
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
  return isRow ? namedRow(parsed as unknown as RowText) : undefined;
}

type RowText = readonly [name: string, ...row: (number | string | null)[]];

function namedRow([name, version, state, last, at, notes, now]: RowText): NamedRow {
  return { name, row: { version, state, last, at, notes, now } as LockRow };
}
