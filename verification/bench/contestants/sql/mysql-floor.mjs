// The least that a lock on MySQL or MariaDB costs: two prepared statements over 8 connections. It cannot wait.
import { createConnection } from 'mysql2/promise';
import { bareLock } from '../bare-lock.mjs';

const CONNECTIONS = 8;
const SCHEMA = `CREATE TABLE floor (name VARBINARY(2048) PRIMARY KEY, owner VARCHAR(64) NOT NULL, until DATETIME(6) NOT NULL)`;
/** The first assignment decides for the second: they run from left to right. */
const TAKE = `INSERT INTO floor VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL 30 SECOND) ON DUPLICATE KEY UPDATE
  owner = IF(until < UTC_TIMESTAMP(6), VALUES(owner), owner), until = IF(owner = VALUES(owner), VALUES(until), until)`;
const DELETE_OWN = 'DELETE FROM floor WHERE name = ? AND owner = ?';

/** @type {import('../contestant.d.mts').OpenContestant} */
export async function open(url) {
  // Without FOUND_ROWS, a row that stays as it is does not count as affected.
  const how = { uri: url, flags: ['-FOUND_ROWS'] };
  const connections = await Promise.all(Array.from({ length: CONNECTIONS }, () => createConnection(how)));
  await connections[0].query(SCHEMA);
  return bareLock(connections, {
    async take(connection, values) {
      const [{ affectedRows }] = await connection.execute(TAKE, values);
      return affectedRows > 0;
    },
    giveBack: (connection, values) => connection.execute(DELETE_OWN, values),
  });
}
