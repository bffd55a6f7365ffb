import { setImmediate as nextTurn } from 'node:timers/promises';
import { openEmbeddedPostgres } from '#embedded-postgres';
import { Database, type Row } from './database.js';

/** Postgres inside this process, in memory: nothing to install, nothing left behind. */
export class EmbeddedDatabase extends Database {
  private readonly opened = openEmbeddedPostgres();

  async query<T extends Row>(sql: string, parameters: readonly unknown[] = []): Promise<readonly T[]> {
    const postgres = await this.opened;
    const { rows } = await postgres.query<T>(sql, [...parameters]);
    // A database across a network answers in a later turn of the event loop, when other requests have run, too. This
    // one answers within the turn, and would hide every race between a read and the write that follows.
    await nextTurn();
    return rows;
  }

  async close(): Promise<void> {
    await (await this.opened).close();
  }
}
