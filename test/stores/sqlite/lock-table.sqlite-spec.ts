import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { sqliteStore } from 'nestjs-distributed-lock/sqlite';
import { until } from '#until';
import { closeServices, failureOf, openServiceOn } from '../../support/lock-services.js';

interface Database {
  exec(sql: string): void;
  close(): void;
}
const { DatabaseSync } = process.getBuiltinModule('node:sqlite' as 'fs') as unknown as {
  readonly DatabaseSync: new (file: string) => Database;
};

describe('the lock table in SQLite', () => {
  let folder: string;
  let file: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'sqlite-table-'));
    file = join(folder, 'locks');
  });
  afterEach(async () => {
    await closeServices();
    rmSync(folder, { recursive: true });
  });

  const service = () => openServiceOn(sqliteStore(file));

  function run(...statements: readonly string[]): void {
    const database = new DatabaseSync(file);
    for (const sql of statements) database.exec(sql);
    database.close();
  }

  const COLUMNS = 'name TEXT, version INTEGER, state TEXT, last INTEGER, at INTEGER, notes TEXT';
  const WITHOUT_KEY = [
    'CREATE TABLE copy AS SELECT * FROM nest_lock',
    'DROP TABLE nest_lock',
    'ALTER TABLE copy RENAME TO nest_lock',
  ];

  it.each([
    ['a copy without its key', WITHOUT_KEY, 'made by another statement'],
    [
      'a name without case',
      [
        'DROP TABLE nest_lock',
        `CREATE TABLE nest_lock (${COLUMNS.replace('TEXT', 'TEXT COLLATE NOCASE PRIMARY KEY')})`,
      ],
      'made by another',
    ],
    ['a column more', ['ALTER TABLE nest_lock ADD COLUMN shop TEXT'], 'made by another statement'],
    ['one more unique index', ['CREATE UNIQUE INDEX few ON nest_lock (at)'], 'its unique index few'],
    [
      'a trigger',
      ['CREATE TRIGGER keep BEFORE DELETE ON nest_lock BEGIN SELECT 1; END'],
      'it has the trigger keep',
    ],
    [
      'a view',
      ['ALTER TABLE nest_lock RENAME TO real', 'CREATE VIEW nest_lock AS SELECT * FROM real'],
      'it is a view',
    ],
  ])(
    'refuses %s at the start, with the reason and the statement that makes a lock table',
    async (_title, statements, says) => {
      await service().withLock('key', () => undefined);
      await closeServices();
      run(...statements);
      const failure = await failureOf(service().acquire('key', { waitMs: 0 }));
      expect(failure).toMatchObject({ code: 'LOCK_CONFIGURATION', message: expect.stringContaining(says) });
      expect((failure as Error).message).toContain('CREATE TABLE IF NOT EXISTS "nest_lock"');
    },
  );

  it('lets nobody hold when its table loses its key while processes are connected', async () => {
    const services = [service(), service()];
    for (const each of services) await each.withLock('key', () => undefined);
    run(...WITHOUT_KEY);
    for (const each of services) {
      expect(await failureOf(each.acquire('key', { waitMs: 0 }))).toMatchObject({
        code: 'LOCK_CONFIGURATION',
      });
    }
  });

  it('makes its table again when it was dropped, and goes on when other tables change', async () => {
    const each = service();
    const lock = await each.acquire('key');
    run('CREATE TABLE goods (id INTEGER)');
    await (await each.acquire('another')).release();
    expect(lock.signal.aborted).toBe(false);
    run('DROP TABLE nest_lock');
    await until(() => lock.signal.aborted);
    await (await each.acquire('key')).release();
  });

  it.each(['read', 'write'] as const)(
    'with access %s refuses a file without its table, and leaves the file as it is',
    async (access) => {
      run('CREATE TABLE goods (id INTEGER)');
      const before = readFileSync(file);
      const failure = await failureOf(openServiceOn(sqliteStore(file, { access })).list());
      expect(failure).toMatchObject({
        code: 'LOCK_CONFIGURATION',
        message: expect.stringContaining('no lock table'),
      });
      await closeServices();
      expect([readdirSync(folder), readFileSync(file).equals(before)]).toEqual([['locks'], true]);
    },
  );

  it('with access read lists what others hold, and refuses to acquire', async () => {
    await using _ = await service().acquire('goods:42');
    const reader = openServiceOn(sqliteStore(file, { access: 'read' }));
    expect((await reader.list()).entries).toMatchObject([{ key: 'goods:42' }]);
    expect(await failureOf(reader.acquire('goods:7'))).toMatchObject({ code: 'LOCK_CONFIGURATION' });
    expect(await failureOf(reader.forceRelease('goods:42'))).toMatchObject({ code: 'LOCK_CONFIGURATION' });
  });

  it.each(['file:locks?nolock=1', 'file:locks', 'FILE:locks'])(
    'refuses the URL %s, whose options may switch locks off',
    (url) => {
      expect(() => sqliteStore(url)).toThrow('a URL');
    },
  );
});
