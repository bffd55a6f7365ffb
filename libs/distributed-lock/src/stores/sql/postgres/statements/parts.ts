/** Parts that the statements share. */

/** When the server got the statement, in microseconds: the same in all of it, and before its reading of the rows. */
export const NOW = `(extract(epoch FROM statement_timestamp()) * 1e6)::bigint`;

/**
 * 1 for a step that is executed in time, also when it has waited for its row. Otherwise an error rolls back the statement
 * (22012).
 */
export const inTime = (until: string): string =>
  `1 / CASE WHEN (extract(epoch FROM clock_timestamp()) * 1e6)::bigint <= ${until} THEN 1 ELSE 0 END`;

export const ROW = 'version, state, last, at, notes';

export const rowOf = (alias: string): string => ROW.replaceAll(/\w+/g, (column) => `${alias}.${column}`);

export const isFree = (row: string): string => `${row}.state IS NULL AND ${row}.notes = ''`;

/**
 * Tells clients of a row that was written: the row itself, or only its name if it is too long for a notification. A name of
 * control characters may be too long itself, as JSON; its waiters find their grants by rechecks.
 *
 * @param clients a text with commas @returns the number of clients told
 */
export const notify = (row: string, clients: string, condition = 'true'): string => `(
    SELECT count(pg_notify('nest_lock_' || client, CASE WHEN octet_length(whole) < 8000 THEN whole ELSE short END))
    FROM (
      SELECT client, json_build_array(${row}.name, ${rowOf(row)}, ${NOW})::text AS whole, json_build_array(${row}.name)::text AS short
      FROM unnest(string_to_array(${clients}, ',')) AS client WHERE ${condition} OFFSET 0
    ) AS told
    WHERE octet_length(short) < 8000)`;
