import { createHash } from 'node:crypto';
import type { SqlAnswer, SqlDialect, SqlQuery, SqlRow } from '../fencing/held-until-commit.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { checkOptions, describeGiven, type OptionRules, RULE } from '../port/option-checks.js';
import { quoted, TABLE_OPTION } from '../sql/lock-table.js';
import type { ResultStore, StoredResult } from './results.js';

/** Options of `sqlResults`. */
export interface SqlResultsOptions {
  /** Default `postgres`. */
  readonly dialect?: SqlDialect;
  /** The table of the results; default `nest_once`. Created before the first use if it is missing. */
  readonly table?: string;
}

const RULES: OptionRules<SqlResultsOptions> = {
  dialect: RULE.oneOf('postgres', 'mysql'),
  table: TABLE_OPTION,
};
/** One in this many writes also deletes expired results, so that the table does not grow for ever. */
const WRITES_PER_SWEEP = 100;
const MAX_SWEPT = 1000;

/** Stores results in a table, also from within a transaction of the application. */
export interface SqlResults extends ResultStore {
  /**
   * Inserts the result of a key by the query function of a transaction.
   *
   * @returns `false` if the key has a result already: the transaction must then be rolled back, because its work was done before
   */
  insert(query: SqlQuery, key: string, result: StoredResult, keepForMs: number): Promise<boolean>;
}

/**
 * Stores results in a table of PostgreSQL, MySQL or MariaDB.
 *
 * If it is the database of your data, `attempt.rememberIn(query, result)` stores the result in the same transaction as the data. Then
 * the work is done exactly one time, even if its lock is lost or the process dies.
 *
 * @param query runs one statement, on a connection of its own or of a pool; the same kind of function that `heldUntilCommit` takes
 * @throws LockConfigurationError for wrong options
 */
export function sqlResults(query: SqlQuery, options: SqlResultsOptions = {}): SqlResults {
  checkOptions('sqlResults', options, RULES);
  if (typeof query !== 'function') {
    throw new LockConfigurationError(
      `sqlResults takes a function that runs a query; it was given ${describeGiven(query)}.`,
    );
  }
  const { dialect = 'postgres', table = 'nest_once' } = options;
  const sql = STATEMENTS[dialect](quoted(table, dialect === 'mysql' ? '`' : '"'));
  const rowsBy = async (run: SqlQuery, text: string, parameters: unknown[]) =>
    rowsOf(await run(text, parameters), table);
  let writes = 0;
  const exists = () =>
    query(sql.read, ['']).then(
      () => true,
      () => false,
    );
  const storedIn = async (run: SqlQuery, key: string): Promise<StoredResult | undefined> => {
    const [row] = await rowsBy(run, sql.read, [idOf(key)]);
    return row && { token: Number(row['token']), text: String(row['result']) };
  };
  return {
    async prepare() {
      // Look first: a user of the database who may not create tables is refused even if the table is there.
      if (await exists()) return;
      try {
        for (const statement of sql.create) await query(statement, []);
      } catch (error) {
        // Of two processes that create the table at the same time, PostgreSQL refuses one.
        if (!(await exists())) throw error;
      }
    },
    read: (key) => storedIn(query, key),
    async write(key, { token, text }, keepForMs) {
      await query(sql.write, [idOf(key), token, text, Math.ceil(keepForMs)]);
      writes += 1;
      if (writes % WRITES_PER_SWEEP === 0) await query(sql.sweep, []);
      // Drivers report in different ways how many rows a statement has changed, so read which result is there.
      return (await storedIn(query, key))?.text === text;
    },
    async remove(key) {
      await query(sql.remove, [idOf(key)]);
    },
    async insert(run, key, { token, text }, keepForMs) {
      // Waits for a transaction that inserts the same key.
      await run(sql.insert, [idOf(key), token, text, Math.ceil(keepForMs)]);
      return (await storedIn(run, key))?.text === text;
    },
  };
}

/** The primary key of a row. A hash, because keys may be longer than an index allows, and may contain what should not be stored. */
function idOf(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}

interface Statements {
  readonly create: readonly string[];
  readonly read: string;
  readonly write: string;
  readonly insert: string;
  readonly remove: string;
  readonly sweep: string;
}

/** All times are those of the server, in ms since 1970, so that the clocks of applications do not matter. */
const STATEMENTS: Readonly<Record<SqlDialect, (table: string) => Statements>> = {
  postgres(table) {
    // In the schema of its table. Two tables in one schema need two names.
    const index = table.replace(/"$/, '_keep_until"').replace(/^.*\./, '');
    const now = 'CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)';
    const insert = `INSERT INTO ${table} (id, token, result, keep_until) VALUES ($1, $2, $3, ${now} + $4::bigint) ON CONFLICT (id)`;
    return {
      create: [
        `CREATE TABLE IF NOT EXISTS ${table} (id char(64) PRIMARY KEY, token bigint NOT NULL, result text NOT NULL, keep_until bigint NOT NULL)`,
        `CREATE INDEX IF NOT EXISTS ${index} ON ${table} (keep_until)`,
      ],
      read: `SELECT token, result FROM ${table} WHERE id = $1 AND keep_until > ${now}`,
      write: `${insert} DO UPDATE SET token = EXCLUDED.token, result = EXCLUDED.result, keep_until = EXCLUDED.keep_until
        WHERE ${table}.token <= EXCLUDED.token OR ${table}.keep_until <= ${now}`,
      insert: `${insert} DO UPDATE SET token = EXCLUDED.token, result = EXCLUDED.result, keep_until = EXCLUDED.keep_until
        WHERE ${table}.keep_until <= ${now}`,
      remove: `DELETE FROM ${table} WHERE id = $1`,
      sweep: `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} WHERE keep_until <= ${now} LIMIT ${MAX_SWEPT} FOR UPDATE SKIP LOCKED)`,
    };
  },
  mysql(table) {
    const now = `(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)`;
    const insert = `INSERT INTO ${table} (id, token, result, keep_until) VALUES (?, ?, ?, ${now} + ?)`;
    const isOver = `keep_until <= ${now}`;
    const isNewer = `token <= VALUES(token) OR ${isOver}`;
    return {
      create: [
        `CREATE TABLE IF NOT EXISTS ${table} (id CHAR(64) CHARACTER SET ascii PRIMARY KEY, token BIGINT NOT NULL, result LONGTEXT CHARACTER SET utf8mb4 NOT NULL, keep_until BIGINT NOT NULL, INDEX (keep_until)) ENGINE = InnoDB`,
      ],
      read: `SELECT token, result FROM ${table} WHERE id = ? AND keep_until > ${now}`,
      // MySQL assigns from left to right, so the columns of the condition come last.
      write: `${insert} ON DUPLICATE KEY UPDATE result = IF(${isNewer}, VALUES(result), result),
        token = IF(${isNewer}, VALUES(token), token), keep_until = IF(token = VALUES(token), VALUES(keep_until), keep_until)`,
      // Not INSERT IGNORE: that locks the row of another transaction in shared mode, and two that do so deadlock when it rolls back.
      insert: `${insert} ON DUPLICATE KEY UPDATE result = IF(${isOver}, VALUES(result), result),
        token = IF(${isOver}, VALUES(token), token), keep_until = IF(${isOver}, VALUES(keep_until), keep_until)`,
      remove: `DELETE FROM ${table} WHERE id = ?`,
      sweep: `DELETE FROM ${table} WHERE keep_until <= ${now} LIMIT ${MAX_SWEPT}`,
    };
  },
};

function rowsOf(answer: SqlAnswer, table: string): readonly SqlRow[] {
  const rows: unknown = Array.isArray(answer)
    ? answer
    : (answer as { readonly rows?: unknown } | undefined)?.rows;
  if (Array.isArray(rows)) return rows as readonly SqlRow[];
  throw new LockConfigurationError(
    `The query function of the table ${table} answered ${describeGiven(answer)} without a list of rows. It must answer the rows as objects, alone or as { rows }.`,
  );
}
