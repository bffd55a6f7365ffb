import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe } from '@jest/globals';
import { sqliteStore } from 'nestjs-distributed-lock/sqlite';
import { systemClock } from '../../../libs/distributed-lock/src/common/clock.js';
import { closeServices, openServiceOn } from '../../support/lock-services.js';
import { describeSweep } from '../support/sweep.contract.js';

interface Database {
  exec(sql: string): void;
  prepare(sql: string): { all(): unknown[] };
}
const { DatabaseSync } = process.getBuiltinModule('node:sqlite') as unknown as {
  readonly DatabaseSync: new (file: string) => Database;
};

describe('a sweep of the lock table in SQLite', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sqlite-sweep-'));
  const file = join(folder, 'locks');
  let database: Database | undefined;
  afterEach(closeServices);
  afterAll(() => rmSync(folder, { recursive: true }));

  const own = () => {
    if (!database) {
      database = new DatabaseSync(file);
      database.exec('PRAGMA busy_timeout = 5000');
    }
    return database;
  };
  describeSweep(() => ({
    open: (clock = systemClock) => openServiceOn(sqliteStore(file), { clock }),
    run: async (sql) => own().exec(sql),
    names: async () =>
      (own().prepare('SELECT name FROM nest_lock ORDER BY name').all() as { name: string }[]).map(
        ({ name }) => name,
      ),
  }));
});
