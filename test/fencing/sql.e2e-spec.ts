import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import mysql, { type ResultSetHeader, type RowDataPacket } from 'mysql2/promise';
import type { PGlite } from '@electric-sql/pglite';
import { openEmbeddedPostgres } from '#embedded-postgres';
import { startMariadbServer } from '#mariadb-server';

const mariadb = await startMariadbServer().catch((error: Error) => {
  process.stderr.write(`\nMySQL is not tried. ${error.message}\n\n`);
  return undefined;
});
afterAll(() => mariadb?.stop());

const page = readFileSync(new URL('../../docs/recipes/sql.md', import.meta.url), 'utf8');
const TABLE = 'CREATE TABLE goods (id INT PRIMARY KEY, stock INT NOT NULL, fence BIGINT NOT NULL DEFAULT 0)';

/** The statement of the page that begins like this. */
function shown(start: string): string {
  const blocks = [...page.matchAll(/^```sql\n([^]*?)^```$/gm)].map(([, block]) => block!);
  return blocks.find((block) => block.startsWith(start))!;
}

/** As large as real ones are: they do not fit into 32 bits, nor into the 14 digits that some print. */
const token = (number: number): number => 1_795_237_040_328_412 + number;

describe('the upsert of the recipe, on Postgres,', () => {
  const upsert = shown('INSERT INTO goods');
  let db: PGlite;
  const write = async (fence: number, stock: number) =>
    (await db.query(upsert, [7, fence, stock])).affectedRows;
  const stock = async () => (await db.query('SELECT stock FROM goods')).rows;

  beforeAll(async () => {
    db = await openEmbeddedPostgres();
    await db.exec(TABLE);
  }, 60_000);
  afterAll(() => db?.close());

  it('writes a row for the first time, later again, and never for a holder that came before', async () => {
    expect(await write(token(1), 1)).toBe(1);
    expect(await write(token(2), 2)).toBe(1);
    expect(await write(token(2), 3)).toBe(1);
    expect(await write(token(1), 9)).toBe(0);
    expect(await stock()).toEqual([{ stock: 3 }]);
  });

  it('of writers that come in any order keeps what the largest token wrote', async () => {
    await Promise.all([15, 11, 18, 13, 17, 12].map((number) => write(token(number), number)));
    expect(await stock()).toEqual([{ stock: 18 }]);
  });
});

if (mariadb) {
  describe('the statement of the recipe, on MariaDB through mysql2,', () => {
    const update = shown('UPDATE goods SET stock = ?');
    let pool: mysql.Pool;
    const write = async (on: Pick<mysql.Pool, 'execute'>, fence: number, stock: number) => {
      const [result] = await on.execute<ResultSetHeader>(update, [stock, fence, 7, fence]);
      return result.affectedRows;
    };

    beforeAll(async () => {
      pool = mysql.createPool({ uri: mariadb.url, connectionLimit: 4 });
      await pool.query('DROP TABLE IF EXISTS goods');
      await pool.query(TABLE);
      await pool.query('INSERT INTO goods (id, stock) VALUES (7, 5)');
    }, 60_000);
    afterAll(() => pool?.end());

    it('counts the row for the same token as often as it comes, and not for a smaller one', async () => {
      expect(await write(pool, token(2), 4)).toBe(1);
      expect(await write(pool, token(2), 4)).toBe(1);
      expect(await write(pool, token(1), 9)).toBe(0);
    });

    it('leaves a transaction that began earlier to read the newest fence, which tells why it was refused', async () => {
      const connection = await pool.getConnection();
      await connection.beginTransaction();
      await connection.query('SELECT fence FROM goods');
      await write(pool, token(4), 3);
      expect(await write(connection, token(3), 9)).toBe(0);
      const [rows] = await connection.query<RowDataPacket[]>(shown('SELECT fence FROM goods'), [7]);
      expect(Number(rows[0]?.['fence'])).toBe(token(4));
      await connection.rollback();
      connection.release();
    });
  });
} else {
  // oxlint-disable-next-line jest/no-disabled-tests, jest/expect-expect -- so that it is told
  it.skip('on MariaDB: none is installed here, and none could be unpacked', () => {});
}
