import type { Socket } from 'node:net';
import type { Connection, ConnectionOptions } from 'mysql2';
import { conceal } from '../common/redaction.js';
import { clientPackage } from '../connection/client-package.js';
import { ServerProtocol } from '../connection/kept-connection.js';
import { connectionName } from '../connection/timing.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { SqlDatabase, SqlLink } from '../sql/database.js';
import type { Columns, LockTable, TableShape } from '../sql/lock-table.js';
import type { SqlContext } from '../sql/store.js';
import { errorNumberOf, mysqlFailure, MysqlLink, MysqlPipe, MysqlStatements } from './link.js';
import { connectionOptions, type MysqlTarget, poolOf } from './target.js';

const MYSQL = new ServerProtocol({
  server: 'MySQL',
  // The server speaks first. The fourth byte is the number of its packet, 0.
  reply: /^..\0\0/s,
  tls: 'MySQL begins without it, and the option ssl asks for it',
});

/** Options that override those of the application. The last five make mysql2 return rows as our statements expect them. */
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
 * Settings of each session. A write on a locked row fails at once (`MysqlStatements.noWait`). Only a new row may have to wait, for a gap that another
 * transaction has locked: one second at most, the shortest timeout that MySQL has. The long `wait_timeout` keeps the server from
 * closing idle connections.
 */
const SETTINGS = [
  "SET SESSION sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00', autocommit = 1, innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, wait_timeout = 2000000",
  'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED',
  "SHOW VARIABLES WHERE Variable_name IN ('wsrep_on', 'group_replication_consistency')",
];

/**
 * On a cluster, a read must wait until its node has applied what other nodes have committed (docs/decisions/0043-galera.md). Group
 * Replication was not tried.
 */
const OF_CLUSTERS: Readonly<Record<string, string>> = {
  wsrep_on: 'SET SESSION wsrep_sync_wait = 1',
  group_replication_consistency: "SET SESSION group_replication_consistency = 'BEFORE'",
};

/** Opens the store's own connections to MySQL or MariaDB. */
export class MysqlDatabase implements SqlDatabase {
  readonly server = 'MySQL';
  readonly failureOf = mysqlFailure;

  constructor(
    private readonly target: MysqlTarget,
    private readonly context: SqlContext,
  ) {
    conceal(this, 'target');
  }

  async open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<SqlLink> {
    const { createConnection } = await clientPackage<typeof import('mysql2')>(
      () => import('mysql2'),
      NO_MYSQL2,
    );
    signal.throwIfAborted();
    // Read the options anew for each connection, because the application may have changed the password.
    const options = connectionOptions(this.target);
    // `performance_schema` shows this name of the connection.
    const program_name = connectionName(this.context.client);
    const connectAttributes = { program_name, ...options.connectAttributes };
    const connection = createConnection({
      ...options,
      connectAttributes,
      ...OWN_OPTIONS,
    } as ConnectionOptions);
    signal.addEventListener('abort', () => connection.destroy());
    const failed = new Promise<never>((_, reject) => {
      MYSQL.watch((connection as unknown as { readonly stream: Socket }).stream, reject);
      connection.on('error', reject);
    });
    try {
      const pipe = new MysqlPipe(connection);
      const link = await Promise.race([this.setUp(connection, pipe), failed]);
      connection.on('error', onLost);
      return link;
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  private async setUp(connection: Connection, pipe: MysqlPipe): Promise<SqlLink> {
    // Call the listeners that the application's pool calls with each new connection. They may choose a database or a role.
    const listeners = poolOf(this.target)?.listeners?.('connection') ?? [];
    if (listeners.length > 0) await pipe.query(['DO 0']);
    for (const listener of listeners) await listener(connection);
    const replies = await pipe.query(SETTINGS);
    for (const { Variable_name: name, Value: value } of replies.at(-1)?.rows ?? []) {
      const setting = value === 'OFF' ? undefined : OF_CLUSTERS[String(name)];
      if (setting !== undefined) await pipe.query([setting]);
    }
    return linkOver(pipe, this.context);
  }
}

const NO_MYSQL2 =
  'mysqlStore needs the package mysql2, which it does not find: npm install mysql2. In a bundle leave mysql2 outside of it, and install it beside the bundle.';

/**
 * Checks that the server and the table can keep locks. Creates the table if it is missing.
 *
 * @throws LockConfigurationError, or the error of the first statement that fails
 */
async function linkOver(pipe: MysqlPipe, { table, access, clock, chance }: SqlContext): Promise<SqlLink> {
  const [reply] = await pipe.query(['SELECT VERSION() AS version']);
  const statements = new MysqlStatements(table.quoted, serverOf(String(reply?.rows[0]?.['version'])));
  try {
    await pipe.run([statements.read([{ name: '' }])]);
  } catch (error) {
    if (errorNumberOf(error) === NO_SUCH_TABLE) {
      if (access !== 'create') throw table.missingError();
      await createTable(pipe, table);
    }
    // The table lacks a column. Go on: `table.check` below reports which one.
    else if (errorNumberOf(error) !== NO_SUCH_COLUMN) throw error;
  }
  table.check(await shapeOf(pipe, table.name), COLUMNS);
  const sentAt = clock.now();
  const [time] = await pipe.query([statements.time, ...(access === 'read' ? [] : statements.probes)]);
  const opened = { now: Number(time?.rows[0]?.['now']) / 1000, sentAt };
  return new MysqlLink(pipe, statements, { opened, chance });
}

const NO_SUCH_TABLE = 1146;
const NO_SUCH_COLUMN = 1054;

async function createTable(pipe: MysqlPipe, table: LockTable): Promise<void> {
  try {
    await pipe.query([table.sql]);
  } catch (error) {
    const { reason, detail } = mysqlFailure(error);
    throw reason === 'refused' ? table.notMadeError(`: ${detail}`, error) : error;
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
const NAME = { type: 'varbinary(2048)', matches: /^varbinary\(2048\)$/ };
const COLUMNS: Columns = {
  name: NAME,
  writer: NUMBER,
  version: NUMBER,
  state: TEXT,
  last: NUMBER,
  at: NUMBER,
  notes: TEXT,
};

/** Asks the catalogue about the table. Its name needs no escaping: `TABLE_OPTION` allows only letters, digits and _. */
async function shapeOf(pipe: MysqlPipe, table: string): Promise<TableShape> {
  const [name, schema] = table.split('.').reverse();
  const isTable = `TABLE_SCHEMA = ${schema === undefined ? 'DATABASE()' : `'${schema}'`} AND TABLE_NAME = '${name}'`;
  const replies = await pipe.query([
    `SELECT TABLE_TYPE AS type, ENGINE AS engine, CREATE_OPTIONS AS options FROM information_schema.TABLES WHERE ${isTable}`,
    `SELECT COLUMN_NAME AS name, COLUMN_TYPE AS type, IS_NULLABLE AS nullable, COLUMN_DEFAULT AS standard, EXTRA AS extra FROM information_schema.COLUMNS WHERE ${isTable}`,
    `SELECT INDEX_NAME AS name, COLUMN_NAME AS field, SUB_PART AS part FROM information_schema.STATISTICS WHERE ${isTable} AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX`,
  ]);
  const [tables = [], columns = [], parts = []] = replies.map(({ rows }) => rows.map(textsOf));
  return { faults: faultsOf(tables[0]), columns: columns.map(columnIn), uniqueKeys: keysIn(parts) };
}

/** A row of the catalogue, without NULL values. Names and values are in lower case, because MySQL and MariaDB differ in that. */
type Texts = Readonly<Record<string, string>>;

function textsOf(row: Readonly<Record<string, unknown>>): Texts {
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

function columnIn({ name = '', type = '', nullable, standard, extra = '' }: Texts) {
  const isNullable = nullable === 'yes';
  const isMade = standard !== undefined || /auto_increment|generated/.test(extra);
  return { name, type, isNullable, mustBeGiven: !isNullable && !isMade };
}

/** Groups the rows of the catalogue, one for each column of a key, into keys. */
function keysIn(parts: readonly Texts[]): TableShape['uniqueKeys'] {
  const names = [...new Set(parts.map(({ name = '' }) => name))];
  return names.map((name) => ({
    name,
    columns: parts
      .filter((part) => part['name'] === name)
      .map(({ field = null, part }) => (part === undefined ? field : null)),
    isComplete: true,
  }));
}
