import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { startEmbeddedDatabase, type EmbeddedDatabase } from '../../apps/seckill/src/embedded-database.js';
import { createOrder } from './without-a-lock/create-order.js';
import { doNextJob } from './without-a-lock/next-job.js';
import { savePage } from './without-a-lock/save-page.js';
import { sell } from './without-a-lock/sell.js';
import { transfer } from './without-a-lock/transfer.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PAGE = readFileSync(`${ROOT}/docs/when-not-to-lock.md`, 'utf8');
const blocks = (language: string) =>
  [...PAGE.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, 'gm'))].map(([, code = '']) => code);

describe('what the page offers instead of a lock', () => {
  let database: EmbeddedDatabase;
  let pool: pg.Pool;

  beforeAll(async () => {
    database = await startEmbeddedDatabase();
    pool = new pg.Pool({ connectionString: database.url });
    for (const statement of blocks('sql')) await pool.query(statement);
    await pool.query('INSERT INTO goods VALUES (1, 3)');
    await pool.query("INSERT INTO pages VALUES (1, 'old')");
    await pool.query('INSERT INTO accounts VALUES (1, 100), (2, 100)');
    await pool.query("INSERT INTO jobs (payload) VALUES ('first'), ('second')");
  }, 60_000);
  afterAll(async () => {
    await pool?.end();
    await database?.close();
  });

  it('is what these tests run', () => {
    const folder = `${ROOT}/test/docs/without-a-lock`;
    const files = readdirSync(folder).map((file) => readFileSync(`${folder}/${file}`, 'utf8'));
    expect(blocks('ts').toSorted()).toEqual(files.toSorted());
  });

  it('makes one order of five requests with one id, and each is answered with it', async () => {
    const ids = await Promise.all(Array.from({ length: 5 }, () => createOrder(pool, 'r-1', 'book')));
    expect(new Set(ids).size).toBe(1);
    expect((await pool.query('SELECT FROM orders')).rowCount).toBe(1);
  });

  it('sells what there is, and no more', async () => {
    const sales = await Promise.allSettled(Array.from({ length: 5 }, () => sell(pool, 1, 1)));
    expect(sales.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
    expect((await pool.query('SELECT stock FROM goods')).rows).toEqual([{ stock: 0 }]);
  });

  it('refuses the second of two writers that saw one version', async () => {
    await savePage(pool, 1, 'mine', 1);
    await expect(savePage(pool, 1, 'yours', 1)).rejects.toThrow('somebody else has changed the page');
    expect((await pool.query('SELECT text, version FROM pages')).rows).toEqual([
      { text: 'mine', version: 2 },
    ]);
  });

  it('moves money in both directions at once, and none that is not there', async () => {
    await Promise.all(Array.from({ length: 10 }, (_, i) => transfer(pool, (i % 2) + 1, 2 - (i % 2), 10)));
    await expect(transfer(pool, 1, 2, 101)).rejects.toThrow('not covered');
    const { rows } = await pool.query('SELECT balance FROM accounts');
    expect(rows).toEqual([{ balance: 100 }, { balance: 100 }]);
  });

  it('does each job once, and again if its work failed', async () => {
    const done: string[] = [];
    const failing = () => Promise.reject(new Error('broken'));
    await expect(doNextJob(pool, failing)).rejects.toThrow('broken');
    const work = async (payload: string) => void done.push(payload);
    while (await doNextJob(pool, work));
    expect(done).toEqual(['first', 'second']);
  });
});
