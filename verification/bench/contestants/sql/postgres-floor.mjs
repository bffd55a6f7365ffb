// The least that a lock on PostgreSQL costs: two prepared statements over 8 connections. It cannot wait. As in our release,
// nobody waits for the disk when a lock is given back.
import pg from 'pg';
import { bareLock } from '../bare-lock.mjs';

const CONNECTIONS = 8;
const SCHEMA = `CREATE TABLE floor (name text COLLATE "C" PRIMARY KEY, owner text NOT NULL, until timestamptz NOT NULL)`;
const TAKE = `INSERT INTO floor AS held VALUES ($1, $2, clock_timestamp() + interval '30 s')
  ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until WHERE held.until < clock_timestamp()`;
const DELETE_OWN = `DELETE FROM floor WHERE name = $1 AND owner = $2
  AND set_config('synchronous_commit', 'off', true) IS NOT NULL`;

/** @type {import('../contestant.d.mts').OpenContestant} */
export async function open(url) {
  const clients = Array.from({ length: CONNECTIONS }, () => new pg.Client(url));
  await Promise.all(clients.map((client) => client.connect()));
  await clients[0].query(SCHEMA);
  return bareLock(clients, {
    take: async (client, values) => (await client.query({ name: 'take', text: TAKE, values })).rowCount === 1,
    giveBack: (client, values) => client.query({ name: 'delete', text: DELETE_OWN, values }),
  });
}
