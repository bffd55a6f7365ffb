import { Verrou } from '@verrou/core';
import { knexStore } from '@verrou/core/drivers/knex';
import knex from 'knex';

/** @type {import('../contestants/contestant.d.mts').OpenContestant} */
export async function open(url) {
  const client = url.startsWith('mysql:') ? 'mysql2' : 'pg';
  const driver = knexStore({ connection: knex({ client, connection: url }) });
  const verrou = new Verrou({ default: 'database', stores: { database: { driver } } });
  // The first lock waits until its table is there.
  await verrou.createLock(`open:${process.pid}`).run(async () => undefined);
  return { run: (key, work) => verrou.createLock(key).run(async () => work()) };
}
