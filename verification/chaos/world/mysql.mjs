import { startMariadbServer } from '#mariadb-server';
import { startMysqlServer } from '#mysql-server';
import { sqlWorld } from './sql.mjs';

/** So few that a fault can use them up. */
const SETTINGS = { max_connections: 60 };
const QUESTIONS = "SHOW GLOBAL STATUS LIKE 'Questions'";

/** One MySQL, and a network of its own before each process. @param {import('../index.d.mts').Kind} kind */
export async function openMysql(kind) {
  const world = await open(startMysqlServer, kind);
  await world.run(`CREATE USER service@'127.0.0.1'`);
  await world.run(`GRANT ALL ON test.* TO service@'127.0.0.1'`);
  return world;
}

/** The same with MariaDB, which knows no users here. @param {import('../index.d.mts').Kind} kind */
export function openMariadb(kind) {
  return open(startMariadbServer, kind, { user: 'root' });
}

/** @param {import('../index.d.mts').Kind} kind */
async function open(start, kind, more = {}) {
  const shift = kind.shift?.();
  const server = await start({ settings: { ...SETTINGS, ...kind.settings }, env: shift?.env });
  return sqlWorld({ dialect: 'mysql', server, shift, statements: QUESTIONS, ...more });
}
