import { setImmediate as nextTurn } from 'node:timers/promises';
import { openEmbeddedPostgres } from '#embedded-postgres';
import { createSchema } from '../../../../dist/apps/seckill/schema.js';

/** The `Database` of the flash sale with its Postgres in the process of the app, so that no second process takes a core. */
export async function openEmbeddedDatabase() {
  const postgres = await openEmbeddedPostgres();
  const database = {
    async query(sql, parameters = []) {
      const { rows } = await postgres.query(sql, [...parameters]);
      // A database across a network replies in a later turn of the event loop, when other requests have run, too.
      await nextTurn();
      return rows;
    },
    close: () => postgres.close(),
    onApplicationShutdown: () => postgres.close(),
  };
  await createSchema(database);
  return database;
}
