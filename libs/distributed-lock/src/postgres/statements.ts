import { clientOf, clientsOf } from '../document/document.js';
import { serializeDocument, serializeNote, serializeFirstGrant } from '../document/json.js';
import type { Swap, Take } from '../document/timed-register.js';
import {
  FREE_FOR_MS,
  type LockRow,
  type Named,
  nestedErrors,
  type ScannedRow,
  type SqlLink,
  type SqlWriteReply,
  UNWRITTEN_FOR_MS,
} from '../sql/database.js';

/** Executes the requests of a store by statements on one connection. */
export class PostgresLink implements SqlLink {
  readonly opened: SqlLink['opened'];
  readonly destroy: () => void;
  private readonly statements: ReturnType<typeof statementsFor>;

  constructor(private readonly parts: LinkParts) {
    this.opened = parts.opened;
    this.destroy = parts.destroy;
    this.statements = statementsFor(parts.table, parts.lockTimeoutMs);
  }

  take(takes: readonly Take[]): Promise<readonly SqlWriteReply[]> {
    const { takeOne, takeMany } = this.statements;
    const all = takes.map(takeParameters);
    const [first] = all;
    const isSingle = first && all.length === 1 && this.parts.mayReuseParameters;
    if (isSingle) return this.write(takeOne, takes, Object.values(first));
    return this.write(takeMany, takes, [JSON.stringify(all)]);
  }

  swap(swaps: readonly Swap[]): Promise<readonly SqlWriteReply[]> {
    const mayBeForgotten = swaps.every((swap) => swap.mayBeForgotten) ? 1 : 0;
    const { swapOne, swapMany } = this.statements;
    const all = swaps.map(swapParameters);
    const [first] = all;
    const isSingle = first && all.length === 1 && this.parts.mayReuseParameters;
    if (isSingle) return this.write(swapOne, swaps, [...Object.values(first), mayBeForgotten]);
    return this.write(swapMany, swaps, [JSON.stringify(all), mayBeForgotten]);
  }

  async read(items: readonly Named[]): Promise<readonly LockRow[]> {
    return (await this.readRows(items)).map(({ row }) => row);
  }

  async scan(after: string, most: number): Promise<readonly ScannedRow[]> {
    return (await this.parts.send(this.statements.scan, [after, most])) as readonly ScannedRow[];
  }

  async deleteFree(names: readonly string[]): Promise<void> {
    await this.parts.send(this.statements.deleteFree, [JSON.stringify(names)]);
  }

  async ping(channel?: string): Promise<void> {
    const { ping, notify } = this.statements;
    await (channel === undefined ? this.parts.send(ping, []) : this.parts.send(notify, [channel]));
  }

  /** Sends a write. Then reads the rows, if another client wrote first, so that some are missing, or if the write came too late. */
  private write(
    statement: PostgresStatement,
    items: readonly Named[],
    parameters: unknown[],
  ): Promise<readonly SqlWriteReply[]> {
    return this.parts.send(statement, parameters).then(
      (rows) => (rows.length < items.length ? this.readRows(items) : repliesIn(rows, items)),
      (error) => {
        if (sqlStateOf(error) !== ROLLED_BACK_ITSELF) throw error;
        return this.readRows(items);
      },
    );
  }

  private async readRows(items: readonly Named[]): Promise<readonly SqlWriteReply[]> {
    const names = JSON.stringify(items.map(({ name }) => name));
    return repliesIn(await this.parts.send(this.statements.read, [names]), items);
  }
}

interface LinkParts extends Pick<SqlLink, 'opened' | 'destroy'> {
  readonly send: (statement: PostgresStatement, parameters: unknown[]) => Promise<readonly object[]>;
  /** The name of the table in quotes. */
  readonly table: string;
  readonly lockTimeoutMs: number;
  /**
   * Whether a statement may use a parameter several times. `false` for ORMs that number parameters anew: only the statements for
   * several requests are used then, in which each parameter occurs once.
   */
  readonly mayReuseParameters: boolean;
}

/** A statement, and the name under which a connection prepares it. */
interface PostgresStatement {
  readonly name: string;
  readonly text: string;
}

/** The SQLSTATE of a division by zero: `inTime` has rolled the statement back, because a request came after its deadline. */
const ROLLED_BACK_ITSELF = '22012';

/**
 * Matches a SQLSTATE: five characters, at least one of them a digit. Error codes of Node, such as EPIPE, have no digit. Those of
 * Prisma begin with P and a digit from 1 to 9.
 */
const SQL_STATE = /^(?!P[1-9])(?=.*\d)[0-9A-Z]{5}$/;

/** The SQLSTATE of an error, also if an ORM has wrapped it; `undefined` for an error that the server did not send. */
export function sqlStateOf(error: unknown): string | undefined {
  return nestedErrors(error)
    .flatMap(({ code, originalCode }) => [code, originalCode])
    .find((code): code is string => typeof code === 'string' && SQL_STATE.test(code));
}

function repliesIn(rows: readonly object[], items: readonly Named[]): readonly SqlWriteReply[] {
  const replies = new Map(
    (rows as readonly WrittenRow[]).map((written) => {
      const { name, row } = namedRow(JSON.parse(written.row) as RowText);
      return [name, { isDone: Number(written.done) === 1, row }];
    }),
  );
  return items.map(({ name }) => {
    const reply = replies.get(name);
    if (!reply) throw new Error(`The statement replied nothing for the name ${JSON.stringify(name)}`);
    return reply;
  });
}

interface WrittenRow {
  readonly done: number | string | bigint | null;
  /** The row as a JSON text, which `rowText` has made. */
  readonly row: string;
}

/** When the server received the statement, in microseconds: earlier than all its reads of rows. */
const NOW = `(extract(epoch FROM statement_timestamp()) * 1e6)::bigint`;

/** 1 if the server executes the request by its deadline `until`. Otherwise divides by zero, which rolls the whole statement back. */
const inTime = (until: string): string =>
  `1 / CASE WHEN (extract(epoch FROM clock_timestamp()) * 1e6)::bigint <= ${until} THEN 1 ELSE 0 END`;

/**
 * Sets two options for the transaction of this one statement, before it locks a row. Behind a pooler the store has no session whose
 * options it could set.
 *
 * - `lock_timeout`: without it the server would go on waiting for a locked row when the client has long given up, on one more
 *   connection for each attempt.
 * - `synchronous_commit`: a grant is on disk before the server replies, whatever the role or the database have set. `remote_apply`
 *   is stronger, and stays.
 *
 * @param mayBeForgotten a condition in SQL under which a crash of the server may undo the statement's write
 * @returns a condition in SQL that is always true
 */
const settings = (lockTimeoutMs: number, mayBeForgotten = 'false'): string => `(SELECT
    set_config('lock_timeout', '${lockTimeoutMs}', true) || set_config('synchronous_commit', CASE
      WHEN ${mayBeForgotten} THEN 'off'
      WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply'
      ELSE 'on' END, true)) <> ''`;

const ROW = 'version, state, last, at, notes';

const rowOf = (alias: string): string => ROW.replaceAll(/\w+/g, (column) => `${alias}.${column}`);

/** Makes a JSON text of a row, its name and the server's time, for replies and notifications. `namedRow` reads it. */
const rowText = (row: string, name = `${row}.name`): string =>
  `json_build_array(${name}, ${rowOf(row)}, ${NOW})::text`;

const isFreeRow = (row: string): string => `${row}.state IS NULL AND ${row}.notes = ''`;

/**
 * Notifies clients of a row that was written. The notification contains the row, or only the row's name if the row is too long for
 * one. If even the name is too long, nothing is sent, and waiters find their grants by rechecks.
 *
 * @param clients client ids with commas between them
 */
const notify = (row: string, clients: string, condition = 'true'): string => `(
    SELECT count(pg_notify('nest_lock_' || client, CASE WHEN octet_length(whole) < 8000 THEN whole ELSE short END))
    FROM (
      SELECT client, ${rowText(row)} AS whole, json_build_array(${row}.name)::text AS short
      FROM unnest(string_to_array(${clients}, ',')) AS client WHERE ${condition} OFFSET 0
    ) AS notified
    WHERE octet_length(short) < 8000)`;

function statementsFor(table: string, lockTimeoutMs: number) {
  const named = (name: string, text: string): PostgresStatement => ({ name: `nest_lock_${name}`, text });
  return {
    takeOne: named('take_one', takeOne(table, lockTimeoutMs)),
    takeMany: named('take_many', takeMany(table, lockTimeoutMs)),
    swapOne: named('swap_one', swapOne(table, lockTimeoutMs)),
    swapMany: named('swap_many', swapMany(table, lockTimeoutMs)),
    read: named('read', read(table)),
    scan: named('scan', scan(table)),
    deleteFree: named('delete_free', deleteFree(table, lockTimeoutMs)),
    ping: named('ping', 'SELECT 1'),
    notify: named('notify', `SELECT pg_notify($1, '')`),
  };
}

/** Reads rows by their names. Parameter: the names as JSON. */
function read(table: string): string {
  return `
SELECT 0 AS done, ${rowText('h', 'g.name')} AS row
FROM json_array_elements_text($1::text::json) AS g (name) LEFT JOIN ${table} AS h ON h.name = g.name`;
}

const isOld = (row: string, ms: number) => `${row}.at < ${NOW} - ${ms * 1000}`;
const isOldAndFree = `${isFreeRow('l')} AND ${isOld('l', FREE_FOR_MS)}`;

/** Reads the next rows in order of their names, for a sweep or a list. Parameters: the name after which to begin, and how many rows. */
function scan(table: string): string {
  return `
SELECT l.name, (NOT (${isFreeRow('l')}))::int AS held, (${isOldAndFree})::int AS free,
  (l.state IS NOT NULL AND ${isOld('l', UNWRITTEN_FOR_MS)})::int AS unwritten
FROM ${table} AS l WHERE l.name > $1::text ORDER BY l.name LIMIT $2::int`;
}

/** Deletes those of the named rows that have been free for long. Skips locked rows. Parameter: the names as JSON. */
function deleteFree(table: string, lockTimeoutMs: number): string {
  return `
WITH old AS (
  SELECT l.name FROM ${table} AS l
  WHERE l.name IN (SELECT json_array_elements_text($1::text::json)) AND ${isOldAndFree} AND ${settings(lockTimeoutMs, 'true')}
  FOR UPDATE SKIP LOCKED
)
DELETE FROM ${table} AS l USING old WHERE l.name = old.name`;
}

/**
 * A swap: writes the row if it still has the version that was read. Keeps the notes (the requests of waiters for a place in the queue)
 * that were stored after that reading. Returns no row if another client has written first.
 *
 * Parameters: those of `swapParameters`, and as 0 or 1 whether a crash of the server may undo the write.
 */
function swapOne(table: string, lockTimeoutMs: number): string {
  return `
UPDATE ${table} AS l SET version = greatest(l.version + 1, ${NOW}), state = $3::text, last = $4::bigint, at = ${NOW},
  notes = substr(l.notes, $6::int + 1), clients = $5::text
WHERE name = $1::text AND version = $2::bigint AND ${NOW} <= $8::bigint
  AND ($7::int = 0 OR length(l.notes) = $6::int) AND ${settings(lockTimeoutMs, '$10::int = 1')}
RETURNING ${inTime('$8::bigint')} AS done, ${rowText('l')} AS row,
  CASE WHEN $9::text <> '' THEN ${notify('l', '$9::text')} END AS notified`;
}

/**
 * Several swaps. Parameters: the swaps as JSON, and whether a crash of the server may undo all of them. Locks the rows in order of
 * their names before it writes any, so that two such statements do not deadlock.
 */
function swapMany(table: string, lockTimeoutMs: number): string {
  return `
WITH g AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::text::json) AS g (
    name text, version bigint, state text, last bigint, clients text, read int, exact int, until bigint, notified text)
  WHERE ${settings(lockTimeoutMs, '$2::int = 1')}
),
k AS MATERIALIZED (
  SELECT l.name, ${rowOf('l')} FROM ${table} AS l WHERE l.name IN (SELECT name FROM g) ORDER BY l.name FOR UPDATE
),
t AS (
  UPDATE ${table} AS l SET version = greatest(l.version + 1, ${NOW}), state = g.state, last = g.last, at = ${NOW},
    notes = substr(l.notes, g.read + 1), clients = g.clients
  FROM k JOIN g ON g.name = k.name
  WHERE l.name = k.name AND k.version = g.version AND ${NOW} <= g.until AND (g.exact = 0 OR length(k.notes) = g.read)
  RETURNING l.name, ${rowOf('l')}, g.notified, ${inTime('g.until')} AS in_time
)
SELECT in_time AS done, ${rowText('t')} AS row, CASE WHEN notified <> '' THEN ${notify('t', 't.notified')} END AS notified
FROM t
UNION ALL
SELECT 0, ${rowText('k', 'g.name')}, 0 FROM g LEFT JOIN k ON k.name = g.name
WHERE g.name NOT IN (SELECT name FROM t)`;
}

/**
 * A take: inserts the row, or overwrites a free one. If the row is not free, appends the notes to it and notifies the clients of
 * its holders. A take without notes only reads such a row, and does not lock it. Parameters: those of `takeParameters`.
 */
function takeOne(table: string, lockTimeoutMs: number): string {
  const free = isFreeRow('l');
  const ifFree = (then: string, otherwise: string) => `CASE WHEN ${free} THEN ${then} ELSE ${otherwise} END`;
  return `
WITH t AS (
  INSERT INTO ${table} AS l (name, ${ROW}, clients)
  SELECT $1::text, ${NOW}, $2::text, greatest(${NOW}, $3::bigint) + $4::bigint, ${NOW}, '', $5::text
  WHERE ${settings(lockTimeoutMs)} AND ${NOW} <= $6::bigint
    AND ($7::text <> '' OR NOT EXISTS (SELECT FROM ${table} AS h WHERE h.name = $1::text AND NOT (${isFreeRow('h')})))
  ON CONFLICT (name) DO UPDATE SET
    version = ${ifFree('greatest(l.version + 1, excluded.version)', 'l.version')},
    state = ${ifFree('excluded.state', 'l.state')},
    last = ${ifFree('greatest(l.last + $4::bigint, excluded.last)', 'l.last')},
    at = ${ifFree('excluded.at', 'l.at')},
    notes = ${ifFree(`''`, `l.notes || replace($7::text, chr(10), excluded.at || '],')`)},
    clients = ${ifFree('excluded.clients', 'l.clients')}
  WHERE ${free} OR $7::text <> ''
  RETURNING l.name, ${rowOf('l')}, l.clients, ${inTime('$6::bigint')} AS in_time
)
SELECT CASE WHEN notes = '' THEN in_time ELSE 0 END AS done, ${rowText('t')} AS row,
  CASE WHEN notes <> '' THEN ${notify('t', 't.clients', 'client <> $5::text')} END AS notified
FROM t
UNION ALL
SELECT 0, ${rowText('h')}, 0 FROM ${table} AS h WHERE h.name = $1::text AND NOT EXISTS (SELECT FROM t)`;
}

/**
 * Several takes, as one JSON parameter. Locks the existing rows in order of their names before it writes any, so that two such
 * statements do not deadlock.
 */
function takeMany(table: string, lockTimeoutMs: number): string {
  const ifFree = (then: string, otherwise: string) =>
    `CASE WHEN k.is_free THEN ${then} ELSE ${otherwise} END`;
  return `
WITH g AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::text::json) AS g (
    name text, state text, floor bigint, tokens bigint, client text, until bigint, notes text)
  WHERE ${settings(lockTimeoutMs)}
),
k AS MATERIALIZED (
  SELECT l.name, ${isFreeRow('l')} AS is_free FROM g JOIN ${table} AS l ON l.name = g.name
  WHERE (${isFreeRow('l')} OR g.notes <> '') AND ${NOW} <= g.until
  ORDER BY l.name FOR UPDATE OF l
),
u AS (
  UPDATE ${table} AS l SET
    version = ${ifFree(`greatest(l.version + 1, ${NOW})`, 'l.version')},
    state = ${ifFree('g.state', 'l.state')},
    last = ${ifFree(`greatest(l.last, g.floor, ${NOW}) + g.tokens`, 'l.last')},
    at = ${ifFree(NOW, 'l.at')},
    notes = ${ifFree(`''`, `l.notes || replace(g.notes, chr(10), ${NOW} || '],')`)},
    clients = ${ifFree('g.client', 'l.clients')}
  FROM k JOIN g ON g.name = k.name WHERE l.name = k.name
  RETURNING l.name, ${rowOf('l')}, l.clients, g.client AS own, ${inTime('g.until')} AS in_time
),
i AS (
  INSERT INTO ${table} AS l (name, ${ROW}, clients)
  SELECT g.name, ${NOW}, g.state, greatest(g.floor, ${NOW}) + g.tokens, ${NOW}, '', g.client FROM g
  WHERE NOT EXISTS (SELECT FROM ${table} AS h WHERE h.name = g.name) AND ${NOW} <= g.until
  ORDER BY g.name COLLATE "C"
  ON CONFLICT (name) DO NOTHING
  RETURNING l.name, ${rowOf('l')}, l.clients, '' AS own, ${inTime('(SELECT min(g.until) FROM g)')} AS in_time
),
t AS (SELECT * FROM u UNION ALL SELECT * FROM i)
SELECT CASE WHEN notes = '' THEN in_time ELSE 0 END AS done, ${rowText('t')} AS row,
  CASE WHEN notes <> '' THEN ${notify('t', 't.clients', 'client <> t.own')} END AS notified
FROM t
UNION ALL
SELECT 0, ${rowText('h', 'g.name')}, 0 FROM g LEFT JOIN ${table} AS h ON h.name = g.name
WHERE g.name NOT IN (SELECT name FROM t)`;
}

/**
 * The channel on which a client receives its notifications. Client ids are random, so only somebody who may read the lock table
 * can send a forged notification.
 */
export function channelOf(clientId: string): string {
  return `nest_lock_${channelId(clientId)}`;
}

/** A client's id without dashes, because PGlite does not quote the names of channels. */
function channelId(clientId: string): string {
  return clientId.replaceAll('-', '');
}

/**
 * Parses a notification: a row, or only its name if the row was too long.
 *
 * @returns `undefined` for a text that our statements would not send: any client of the database may send one
 */
export function notifiedBy(payload: string): { readonly name: string; readonly row?: LockRow } | undefined {
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

/** A row as `rowText` has written it. */
type RowText = readonly [name: string, ...row: (number | string | null)[]];

function namedRow([name, version, state, last, at, notes, now]: RowText) {
  return { name, row: { version, state, last, at, notes, now } as LockRow };
}

/** The parameters of a take, in the order in which the statement numbers them. */
function takeParameters({ name, request, minToken, notes, deadline }: Take) {
  return {
    name,
    state: serializeFirstGrant(request),
    floor: minToken,
    tokens: request.tokens,
    client: channelId(clientOf(request.owner)),
    until: micros(deadline()),
    // The statement replaces each line break by the server's time in microseconds and `],`, which completes the note.
    notes: notes.map((note) => `${serializeNote(note)}\n`).join(''),
  };
}

/** The parameters of a swap, in the order in which the statement numbers them. */
function swapParameters(swap: Swap) {
  const { name, expected, next, deadline } = swap;
  return {
    name,
    version: expected.version,
    state: serializeDocument(next),
    last: swap.lastToken,
    clients: clientsOf(next.holders).map(channelId).join(','),
    read: expected.notesRead,
    exact: swap.failOnUnreadNotes ? 1 : 0,
    until: micros(deadline()),
    notified: swap.notified.map(channelId).join(','),
  };
}

function micros(ms: number): number {
  return Math.floor(ms * 1000);
}
