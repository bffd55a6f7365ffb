import { describe, expect, it } from '@jest/globals';
import { openEmbeddedPostgres } from '#embedded-postgres';

describe('the embedded Postgres', () => {
  it('is empty each time, and has nothing of another one', async () => {
    const first = await openEmbeddedPostgres();
    const second = await openEmbeddedPostgres();
    try {
      await first.exec('CREATE TABLE goods (id int); INSERT INTO goods VALUES (1)');
      await expect(second.query('SELECT * FROM goods')).rejects.toThrow('does not exist');
      await second.exec('CREATE TABLE goods (id int)');
      expect((await first.query('SELECT * FROM goods')).rows).toEqual([{ id: 1 }]);
      expect((await second.query('SELECT * FROM goods')).rows).toEqual([]);
    } finally {
      await first.close();
      await second.close();
    }
  }, 60_000);
});
