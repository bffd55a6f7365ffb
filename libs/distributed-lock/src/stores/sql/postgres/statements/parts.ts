/** Parts that the statements share. */

/** When the server got the statement, in microseconds: the same in all of it, and before its reading of the rows. */
export const NOW = `(extract(epoch FROM statement_timestamp()) * 1e6)::bigint`;

/**
 * 1 for a request that is executed in time, also when it has waited for its row. Otherwise an error rolls back the statement
 * (22012).
 */
export const inTime = (until: string): string =>
  `1 / CASE WHEN (extract(epoch FROM clock_timestamp()) * 1e6)::bigint <= ${until} THEN 1 ELSE 0 END`;

/**
 * Settings of this statement's own transaction, made before it locks a row. Behind a pooler no session of the store's own
 * could have them.
 *
 * The statement waits `lockTimeoutMs` at most for a row that another transaction keeps locked. The server would go on waiting
 * after the client has left, with one connection for each attempt. A grant is on disk when it is answered, whatever the role or
 * the database have for `synchronous_commit`. `remote_apply` is stronger and stays.
 *
 * @param mayBeForgotten a condition: a crash of the server may undo what is written
 * @returns a condition that is always true, and evaluated once
 */
export const settings = (lockTimeoutMs: number, mayBeForgotten = 'false'): string => `(SELECT
    set_config('lock_timeout', '${lockTimeoutMs}', true) || set_config('synchronous_commit', CASE
      WHEN ${mayBeForgotten} THEN 'off'
      WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply'
      ELSE 'on' END, true)) <> ''`;

export const ROW = 'version, state, last, at, notes';

export const rowOf = (alias: string): string => ROW.replaceAll(/\w+/g, (column) => `${alias}.${column}`);

/** A row with its name and the server's time, as JSON: in replies and in notifications. `namedRowIn` reads it. */
export const rowText = (row: string, name = `${row}.name`): string =>
  `json_build_array(${name}, ${rowOf(row)}, ${NOW})::text`;

export const isFreeRow = (row: string): string => `${row}.state IS NULL AND ${row}.notes = ''`;

/**
 * Tells clients of a row that was written: the row itself, or only its name if it is too long for a notification. A name of
 * control characters may be too long itself, as JSON; its waiters find their grants by rechecks.
 *
 * @param clients a text with commas @returns the number of clients notified
 */
export const notify = (row: string, clients: string, condition = 'true'): string => `(
    SELECT count(pg_notify('nest_lock_' || client, CASE WHEN octet_length(whole) < 8000 THEN whole ELSE short END))
    FROM (
      SELECT client, ${rowText(row)} AS whole, json_build_array(${row}.name)::text AS short
      FROM unnest(string_to_array(${clients}, ',')) AS client WHERE ${condition} OFFSET 0
    ) AS notified
    WHERE octet_length(short) < 8000)`;
