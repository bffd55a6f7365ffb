import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { sqliteStore } from 'nestjs-distributed-lock/sqlite';
import { describeBackEndCases } from '../../support/back-end-cases.js';
import { closeServices, failureOf, openServiceOn } from '../../support/lock-services.js';

const folder = mkdtempSync(join(tmpdir(), 'sqlite-locks-'));
const file = join(folder, 'locks');

describeBackEndCases('sqliteStore', () => ({ store: sqliteStore(file) }));

describe('sqliteStore', () => {
  afterAll(async () => {
    await closeServices();
    rmSync(folder, { recursive: true });
  });

  it('refuses a file in a folder that does not exist, a file that is no database, and a folder', async () => {
    const missing = openServiceOn(sqliteStore(join(folder, 'nowhere/locks')));
    expect(await failureOf(missing.acquire('key', { waitMs: 0 }))).toMatchObject({
      reason: 'refused',
      message: expect.stringContaining('The folder must exist'),
    });
    writeFileSync(
      join(folder, 'text'),
      'This is no database, and long enough to be seen as such. '.repeat(20),
    );
    const text = openServiceOn(sqliteStore(join(folder, 'text')));
    expect(await failureOf(text.acquire('key', { waitMs: 0 }))).toMatchObject({
      reason: 'refused',
      message: expect.stringContaining('file of its own'),
    });
    const whole = openServiceOn(sqliteStore(folder));
    expect(await failureOf(whole.acquire('key', { waitMs: 0 }))).toMatchObject({
      message: `sqliteStore cannot use ${folder}: it is a folder. Give the path of a file in it, such as ${join(folder, 'locks.sqlite')}.`,
    });
  });

  it('refuses what `synchronous` does not know', () => {
    expect(() => sqliteStore(file, { synchronous: 'off' as 'full' })).toThrow("'normal' or 'full'");
    expect(() => sqliteStore(file, { synchronous: 'full' })).not.toThrow();
  });

  it('keeps the locks of two tables of one file apart', async () => {
    const [one, other] = ['locks_a', 'locks_b'].map((table) => openServiceOn(sqliteStore(file, { table })));
    const lock = await one!.acquire('key');
    expect(await other!.tryAcquire('key')).not.toBeNull();
    await lock.release();
  });
});
