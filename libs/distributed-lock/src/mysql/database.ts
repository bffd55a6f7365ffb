import type { Socket } from 'node:net';
import type { Connection, ConnectionOptions } from 'mysql2';
import type { Chance } from '../common/clock.js';
import { conceal } from '../common/redaction.js';
import { clientPackage } from '../connection/client-package.js';
import { type OwnProtocol, watchFirstBytes } from '../connection/kept-connection.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { SqlDatabase, SqlLink } from '../sql/database.js';
import type { SqlAccess, SqlDatabaseOptions } from '../sql/lock-table.js';
import {
  checkShape,
  type Column,
  type Columns,
  lockTableSql,
  missingTableError,
  notMadeError,
  quoted,
  type UniqueKey,
} from '../sql/lock-table.js';
import { errorNumberOf, mysqlFailure, MysqlLink, MysqlPipe, NO_SUCH_COLUMN, NO_SUCH_TABLE } from './link.js';
import type { MysqlRow } from './link.js';
import { MARIADB_NO_WAIT, MYSQL_NO_WAIT, MysqlStatements, plain } from './statements.js';
import { connectionOptions, type MysqlTarget, poolOf, withProgramName } from './target.js';

const MYSQL: OwnProtocol = {
  server: 'MySQL',
  // The server speaks first. The fourth byte is the number of its packet, 0.
  reply: /^..\0\0/s,
  tls: 'MySQL begins without it, and the option ssl asks for it',
};

/**
 * Options that override those of the application. From `typeCast` on, they make mysql2 return rows in the form that our statements
 * expect.
 */
const OWN_OPTIONS: ConnectionOptions = {
  multipleStatements: true,
  charset: 'utf8mb4',
  enableKeepAlive: true,
  keepAliveInitialDelay: 10_000,
  trace: false,
  flags: [],
  typeCast: true,
  rowsAsArray: false,
  nestTables: false,
  namedPlaceholders: false,
  queryFormat: undefined,
};

/**
 * Settings of each session, so that the statements mean the same on every server. A write on a locked row fails at once
 * (`NoWait`). Only a new row may have to wait, for a gap that another transaction has locked: one second at most, the shortest
 * timeout that MySQL has. The long `wait_timeout` keeps the server from closing idle connections.
 */
const SETTINGS = [
  "SET SESSION sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00', autocommit = 1, innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, wait_timeout = 2000000",
  'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED',
  "SHOW VARIABLES WHERE Variable_name IN ('wsrep_on', 'group_replication_consistency')",
];

/**
 * On a cluster, a read must wait until its node has applied what other nodes have committed. Taken from the manuals; not tried on
 * a cluster.
 */
const OF_CLUSTERS: Readonly<Record<string, string>> = {
  wsrep_on: 'SET SESSION wsrep_sync_wait = 1',
  group_replication_consistency: "SET SESSION group_replication_consistency = 'BEFORE'",
};

/** Opens the store's own connections to MySQL or MariaDB. */
export class MysqlDatabase implements SqlDatabase {
  readonly server = 'MySQL';
  readonly access: SqlAccess;
  readonly failureOf = mysqlFailure;

  constructor(
    private readonly target: MysqlTarget,
    private readonly connectionName: string,
    private readonly options: MysqlDatabaseOptions,
  ) {
    conceal(this, 'target');
    this.access = options.access;
  }

  async open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<SqlLink> {
    const { createConnection } = await clientPackage<Mysql2>(() => import('mysql2'), NO_MYSQL2);
    signal.throwIfAborted();
    // Read the options anew for each connection, because the application may have changed the password.
    const own = withProgramName(connectionOptions(this.target), this.connectionName);
    const connection = createConnection({ ...own, ...OWN_OPTIONS });
    signal.addEventListener('abort', () => connection.destroy());
    const failed = new Promise<never>((_, reject) => {
      watchFirstBytes(streamOf(connection), MYSQL, reject);
      connection.on('error', reject);
    });
    try {
      const pipe = new MysqlPipe(connection);
      const prepared = await Promise.race([this.setUp(connection, pipe), failed]);
      connection.on('error', onLost);
      return new MysqlLink(pipe, prepared, this.options.chance);
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  private async setUp(connection: Connection, pipe: MysqlPipe): Promise<PreparedTable> {
    await this.setUpAsPool(connection, pipe);
    const replies = await pipe.run(SETTINGS.map(plain));
    for (const { Variable_name: name, Value: value } of replies.at(-1)?.rows ?? []) {
      const setting = value === 'OFF' ? undefined : OF_CLUSTERS[String(name)];
      if (setting !== undefined) await pipe.run([plain(setting)]);
    }
    return prepare(pipe, this.options);
  }

  /** Calls the listeners that the application's pool calls with each new connection. They may choose a database or a role. */
  private async setUpAsPool(connection: Connection, pipe: MysqlPipe): Promise<void> {
    const listeners = poolOf(this.target)?.listeners?.('connection') ?? [];
    if (listeners.length === 0) return;
    await pipe.run([plain('DO 0')]);
    for (const listener of listeners) await listener(connection);
  }
}

function streamOf(connection: Connection): Socket {
  return (connection as unknown as { readonly stream: Socket }).stream;
}

interface MysqlDatabaseOptions extends SqlDatabaseOptions {
  readonly chance: Chance;
}

type Mysql2 = typeof import('mysql2');

const NO_MYSQL2 =
  'mysqlStore needs the package mysql2, which it does not find: npm install mysql2. In a bundle leave mysql2 outside of it, and install it beside the bundle.';

/**
 * Checks that the server and the table can keep locks. Creates the table if it is missing.
 *
 * @throws LockConfigurationError, or the error of the first statement that fails
 */
async function prepare(
  pipe: MysqlPipe,
  { table, access, clock }: SqlDatabaseOptions,
): Promise<PreparedTable> {
  const [reply] = await pipe.run([plain('SELECT VERSION() AS version')]);
  const noWait =
    serverOf(String(reply?.rows[0]?.['version'])) === 'MariaDB' ? MARIADB_NO_WAIT : MYSQL_NO_WAIT;
  const statements = new MysqlStatements(quoted(table, '`'), noWait);
  try {
    await pipe.run([statements.read([''])]);
  } catch (error) {
    if (errorNumberOf(error) === NO_SUCH_TABLE) {
      if (access !== 'create') throw missingTableError({ store: 'mysqlStore', table });
      await createTable(pipe, table);
    }
    // The table lacks a column. Go on: `checkTableShape` below reports which one.
    else if (errorNumberOf(error) !== NO_SUCH_COLUMN) throw error;
  }
  await checkTableShape(pipe, table);
  const sentAt = clock.now();
  const [time] = await pipe.run([statements.time(), ...(access === 'read' ? [] : statements.probes())]);
  return { opened: { now: Number(time?.rows[0]?.['now']) / 1000, sentAt }, statements };
}

export interface PreparedTable {
  readonly opened: SqlLink['opened'];
  readonly statements: MysqlStatements;
}

async function createTable(pipe: MysqlPipe, table: string): Promise<void> {
  const sql = lockTableSql('mysql', table);
  try {
    await pipe.run([plain(sql)]);
  } catch (error) {
    const { reason, detail } = mysqlFailure(error);
    if (reason !== 'refused') throw error;
    throw notMadeError({ store: 'mysqlStore', table, sql }, `: ${detail}`, error);
  }
}

const LEAST = { MySQL: [8, 0], MariaDB: [10, 5] } as const;

/** @throws LockConfigurationError for a server that is too old */
function serverOf(version: string): keyof typeof LEAST {
  const name = version.includes('MariaDB') ? 'MariaDB' : 'MySQL';
  // MariaDB may put 5.5.5- before its version, for the sake of old clients.
  const [, major, minor] = /^(?:5\.5\.5-)?(\d+)\.(\d+)/.exec(version) ?? [];
  const [leastMajor, leastMinor] = LEAST[name];
  const isOlder = Number(major) < leastMajor || (Number(major) === leastMajor && Number(minor) < leastMinor);
  if (!isOlder) return name;
  throw new LockConfigurationError(
    `The server of mysqlStore is ${name} ${version}. Locks need ${name} ${leastMajor}.${leastMinor} or later.`,
  );
}

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

/** @throws LockConfigurationError if the table does not have the columns and keys of a lock table */
async function checkTableShape(pipe: MysqlPipe, table: string): Promise<void> {
  const replies = await pipe.run(questionsAbout(table).map(plain));
  const [tables = [], columns = [], parts = []] = replies.map(({ rows }) => rows.map(textsOf));
  const shape = { faults: faultsOf(tables[0]), columns: columns.map(columnIn), uniqueKeys: keysIn(parts) };
  checkShape(shape, COLUMNS, { store: 'mysqlStore', table, sql: lockTableSql('mysql', table) });
}

/** Queries of the catalogue about this table. Its name needs no escaping: `checkTableName` allows only letters, digits and _. */
function questionsAbout(table: string): readonly string[] {
  const [name, schema] = table.split('.').reverse();
  const isTable = `TABLE_SCHEMA = ${schema === undefined ? 'DATABASE()' : `'${schema}'`} AND TABLE_NAME = '${name}'`;
  return [
    `SELECT TABLE_TYPE AS type, ENGINE AS engine, CREATE_OPTIONS AS options FROM information_schema.TABLES WHERE ${isTable}`,
    `SELECT COLUMN_NAME AS name, COLUMN_TYPE AS type, IS_NULLABLE AS nullable, COLUMN_DEFAULT AS standard, EXTRA AS extra FROM information_schema.COLUMNS WHERE ${isTable}`,
    `SELECT INDEX_NAME AS name, COLUMN_NAME AS field, SUB_PART AS part FROM information_schema.STATISTICS WHERE ${isTable} AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX`,
  ];
}

/** A row of the catalogue, without NULL values. Names and values are in lower case, because MySQL and MariaDB differ in that. */
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

/** Groups the rows of the catalogue, one for each column of a key, into keys. */
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
