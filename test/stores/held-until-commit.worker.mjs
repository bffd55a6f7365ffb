// One process of a shop: the built package, transactions that end with heldUntilCommit, and a fate that may meet them.
// It loads the built files that need no Nest, which takes most of a second to load.
import { mysqlStore } from 'nestjs-distributed-lock/mysql';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import mysql from 'mysql2/promise';
import pg from 'pg';
import { LockService } from '../../libs/distributed-lock/dist/shared/core.names.cjs';
import { heldUntilCommit } from '../../libs/distributed-lock/dist/shared/fencing.names.cjs';

const { dialect, url, shops, leaseMs, faults } = JSON.parse(process.argv[2]);
const commandTimeoutMs = Math.floor(leaseMs / 3);
const store = dialect === 'mysql' ? mysqlStore : postgresStore;
const locks = new LockService({ store: store(url, { commandTimeoutMs }), watchdogTimeoutMs: leaseMs });

const say = (what) => process.stdout.write(`${what}\n`);

const open = {
  async postgres() {
    const client = new pg.Client(url);
    await client.connect();
    return async (sql, parameters) => (await client.query(sql, parameters)).rows;
  },
  async mysql() {
    const connection = await mysql.createConnection(url);
    return async (sql, parameters = []) => {
      const [rows] =
        parameters.length > 0 ? await connection.execute(sql, parameters) : await connection.query(sql);
      return Array.isArray(rows) ? rows : [];
    };
  },
};
const query = await open[dialect]();

/** Some transactions die or freeze, in one of these moments. Whoever started this process wakes it up. */
const MOMENTS = ['begun', 'read', 'written', 'held'];
function fate() {
  if (Math.random() >= faults) return () => undefined;
  const moment = MOMENTS[Math.floor(Math.random() * MOMENTS.length)];
  const signal = Math.random() < 0.2 ? 'SIGKILL' : 'SIGSTOP';
  return (now) => {
    if (now !== moment) return;
    say(signal);
    process.kill(process.pid, signal);
  };
}

/** As if it froze between the check of the lock itself and the statement. */
function unaware({ keys, fencingToken }) {
  return { keys, tokenOf: () => fencingToken, assertHeld: () => undefined };
}

async function sellOne(shop, lock) {
  const meet = fate();
  await query('BEGIN');
  try {
    meet('begun');
    const [{ sold }] = await query(`SELECT sold FROM shops WHERE id = ${shop}`);
    meet('read');
    const next = Number(sold) + 1;
    await query(`UPDATE shops SET sold = ${next} WHERE id = ${shop}`);
    await query(`INSERT INTO sales VALUES (${shop}, ${next}, ${lock.fencingToken})`);
    meet('written');
    await heldUntilCommit(query, unaware(lock), { dialect });
    meet('held');
    await query('COMMIT');
  } catch (error) {
    await query('ROLLBACK');
    throw error;
  }
}

for (;;) {
  const shop = Math.floor(Math.random() * shops);
  try {
    const options = { waitMs: Infinity, onLost: 'ignore' };
    await locks.withLock(`shop:${shop}`, options, (lock) => sellOne(shop, lock));
  } catch (error) {
    say(error.reason === 'refused' ? `refused: ${error.message}` : error.code);
  }
}
