import { lockTableSql } from '../lock-table.js';
import { checkShape, type Column, type Columns, type UniqueKey } from '../table-shape.js';
import type { MysqlPipe, MysqlRow } from './mysql.pipe.js';
import { plain } from './mysql.statements.js';

const NUMBER = { type: 'bigint', matches: /^bigint(\(\d+\))?$/ };
const TEXT = { type: 'mediumtext', matches: /^(medium|long)text$/ };
const COLUMNS: Columns = {
  name: { type: 'varbinary(2048)', matches: /^varbinary\(2048\)$/ },
  writer: NUMBER,
  version: NUMBER,
  state: TEXT,
  last: NUMBER,
  at: NUMBER,
  notes: TEXT,
};

/** @throws LockConfigurationError for a table that is no lock table */
export async function checkTableShape(pipe: MysqlPipe, table: string): Promise<void> {
  const replies = await pipe.run(questionsAbout(table).map(plain));
  const [tables = [], columns = [], parts = []] = replies.map(({ rows }) => rows.map(textsOf));
  const shape = { faults: faultsOf(tables[0]), columns: columns.map(columnIn), uniqueKeys: keysIn(parts) };
  checkShape(shape, COLUMNS, { store: 'mysqlStore', table, sql: lockTableSql('mysql', table) });
}

/** A table's name has letters, digits and _ only, and so needs no escaping here. */
function questionsAbout(table: string): readonly string[] {
  const [name, schema] = table.split('.').reverse();
  const isTable = `TABLE_SCHEMA = ${schema === undefined ? 'DATABASE()' : `'${schema}'`} AND TABLE_NAME = '${name}'`;
  return [
    `SELECT TABLE_TYPE AS type, ENGINE AS engine, CREATE_OPTIONS AS options FROM information_schema.TABLES WHERE ${isTable}`,
    `SELECT COLUMN_NAME AS name, COLUMN_TYPE AS type, IS_NULLABLE AS nullable, COLUMN_DEFAULT AS standard, EXTRA AS extra FROM information_schema.COLUMNS WHERE ${isTable}`,
    `SELECT INDEX_NAME AS name, COLUMN_NAME AS field, SUB_PART AS part FROM information_schema.STATISTICS WHERE ${isTable} AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX`,
  ];
}

/** Column names and values in lower case, because the servers differ. A value that is NULL is left out. */
type Texts = Readonly<Record<string, string>>;

function textsOf(row: MysqlRow): Texts {
  const given = Object.entries(row).filter(([, value]) => value !== null);
  return Object.fromEntries(given.map(([name, value]) => [name, String(value).toLowerCase()]));
}

function faultsOf(table: Texts | undefined): readonly string[] {
  if (!table) return ['it is temporary, or not listed in information_schema.TABLES'];
  const { type, engine, options } = table;
  if (type !== 'base table') return [`it is a ${type}`];
  if (engine !== 'innodb') return [`its engine is ${engine} and not InnoDB`];
  return options?.includes('partitioned') ? ['it is partitioned'] : [];
}

function columnIn({ name = '', type = '', nullable, standard, extra = '' }: Texts): Column {
  const isNullable = nullable === 'yes';
  const isMade = standard !== undefined || /auto_increment|generated/.test(extra);
  return { name, type, isNullable, mustBeGiven: !isNullable && !isMade };
}

/** Joins the rows of the answer, each of which is a part of a key. */
function keysIn(parts: readonly Texts[]): readonly UniqueKey[] {
  const names = [...new Set(parts.map(({ name = '' }) => name))];
  return names.map((name) => ({
    name,
    columns: parts
      .filter((part) => part['name'] === name)
      .map(({ field = null, part }) => (part === undefined ? field : null)),
    isComplete: true,
  }));
}
