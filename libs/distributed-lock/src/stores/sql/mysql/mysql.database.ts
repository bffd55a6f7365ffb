import type { Socket } from 'node:net';
import type { Connection, ConnectionOptions } from 'mysql2';
import { clientPackage } from '../../common/client-package.js';
import { watchFirstBytes, type OwnProtocol } from '../../common/connection/first-bytes.js';
import { conceal } from '../../../redaction/conceal.js';
import type { Chance } from '../../../time/chance.js';
import type { SqlAccess, SqlDatabaseOptions } from '../sql-options.js';
import type { SqlDatabase, SqlLink } from '../sql-database.js';
import { mysqlFailure } from './mysql.failures.js';
import { MysqlLink } from './mysql.link.js';
import { MysqlPipe } from './mysql.pipe.js';
import { prepare, type PreparedTable } from './mysql.preparation.js';
import { plain } from './mysql.statements.js';
import { connectionOptions, poolOf, withProgramName, type MysqlTarget } from './mysql.target.js';

const MYSQL: OwnProtocol = {
  server: 'MySQL',
  // The server sends first, and the number of its first packet is 0.
  reply: /^..\0\0/s,
  tls: 'MySQL begins without it, and the option ssl asks for it',
};

/** Options of each connection for locks. The last ones keep replies in the form that the statements expect. */
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
 * The meaning of a statement must not depend on the settings of the server. No write waits for a row (`NoWait`), but a
 * new row may wait for a gap that another transaction has locked: for one second at most, which is the least that MySQL
 * knows. A connection may be idle for weeks.
 */
const SETTINGS = [
  "SET SESSION sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00', autocommit = 1, innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, wait_timeout = 2000000",
  'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED',
  "SHOW VARIABLES WHERE Variable_name IN ('wsrep_on', 'group_replication_consistency')",
];

/** On a cluster a reading must wait until its node has all that the others have committed, as the manuals say. Not measured. */
const OF_CLUSTERS: Readonly<Record<string, string>> = {
  wsrep_on: 'SET SESSION wsrep_sync_wait = 1',
  group_replication_consistency: "SET SESSION group_replication_consistency = 'BEFORE'",
};

/** Connections of our own to MySQL or MariaDB. */
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
    // Read anew for each connection, because the application may have changed a password.
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

  /** A pool gives each new connection to its listeners, which may choose a database or a role there. */
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
