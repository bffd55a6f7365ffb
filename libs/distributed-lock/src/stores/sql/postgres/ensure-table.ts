import { LockConfigurationError } from '../../../port/lock.errors.js';
import { lockTableSql } from '../lock-table.js';
import { sqlStateOf } from './postgres.errors.js';

type Run = (sql: string) => Promise<unknown>;

/** Another process has made the table at the same time. */
const EXISTS = ['23505', '42P07', '42710'];

/** @throws LockConfigurationError with the statement, if the user of the store may not make the table */
export async function createTable(run: Run, table: string): Promise<void> {
  const sql = lockTableSql('postgres', table);
  try {
    await run(sql);
  } catch (cause) {
    const state = sqlStateOf(cause) ?? '';
    if (EXISTS.includes(state)) return;
    if (!['42501', '3F000', '25006'].includes(state)) throw cause;
    throw new LockConfigurationError(
      `The lock table ${table} is missing, and the user of postgresStore cannot make it (${state}). Run this as its owner, and grant SELECT, INSERT, UPDATE and DELETE on it: ${inOneLine(sql)}`,
      { cause },
    );
  }
}

const COLUMNS: Readonly<Record<string, string>> = {
  name: 'text',
  version: 'bigint',
  state: 'text',
  last: 'bigint',
  at: 'bigint',
  clients: 'text',
  notes: 'text',
};

/**
 * @param found names and types of the columns, as `name text,version bigint`
 * @throws LockConfigurationError for a table that is no lock table
 */
export function checkColumns(found: string, table: string): void {
  const types = new Map(found.split(',').map((column) => column.split(' ', 2) as [string, string]));
  const wrong = Object.entries(COLUMNS).filter(([name, type]) => types.get(name) !== type);
  if (wrong.length === 0) return;
  const columns = wrong.map(([name, type]) => `${name} ${type}`).join(', ');
  throw new LockConfigurationError(
    `The table ${table} is no lock table: it lacks ${columns}. Give postgresStore another table, or rename that one. A lock table is made by: ${inOneLine(lockTableSql('postgres', table))}`,
  );
}

/** Messages are lines of a log. */
function inOneLine(sql: string): string {
  return `${sql.replaceAll(/\s+/g, ' ')};`;
}
