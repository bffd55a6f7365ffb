import 'reflect-metadata';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import type { SqlDialect } from 'nestjs-distributed-lock/guard';
import { sqlResults } from 'nestjs-distributed-lock/once';
import { startMariadbServer } from '#mariadb-server';
import { startMysqlServer } from '#mysql-server';
import { startPostgresServer } from '#postgres-server';
import type { ServerName } from '#servers';
import type { OwnServer } from '../../tools/own-server/index.mjs';
import { describeSqlResults } from '../once/support/sql-results.contract.js';
import { closeServices } from '../support/lock-services.js';
import { ownServer } from '../support/own-server.js';
import { describeWith } from './support/describe-with.js';
import { openConnection, type OwnConnection } from './support/own-transactions.js';

const ENGINES: readonly (readonly [
  name: ServerName,
  dialect: SqlDialect,
  start: () => Promise<OwnServer>,
])[] = [
  ['postgres', 'postgres', startPostgresServer],
  ['mariadb', 'mysql', startMariadbServer],
  ['mysql', 'mysql', startMysqlServer],
];

for (const [name, dialect, start] of ENGINES) {
  describeWith(name)(`once on ${name}`, () => {
    const server = ownServer(start);
    const opened: OwnConnection[] = [];
    const open = async () => {
      const connection = await openConnection[dialect](server.url);
      opened.push(connection);
      return connection;
    };
    let shared: OwnConnection;
    beforeEach(async () => {
      shared = await open();
    });
    afterEach(async () => {
      await closeServices();
      for (const connection of opened.splice(0)) connection.cut();
    });

    it('processes that start at the same time make one table, and two tables have an index each', async () => {
      const tables = await Promise.all(
        Array.from({ length: 8 }, async (_, i) => {
          const { query } = await open();
          return sqlResults(query, { dialect, table: i % 2 === 0 ? 'once_a' : 'once_b' });
        }),
      );
      await Promise.all(tables.map(async (results) => results.prepare?.()));
      for (const results of tables) expect(await results.read('none')).toBeUndefined();
      const indexes =
        dialect === 'postgres'
          ? await shared.run(
              "SELECT indexname FROM pg_indexes WHERE indexname IN ('once_a_keep_until', 'once_b_keep_until')",
            )
          : [1, 2];
      expect(indexes).toHaveLength(2);
    });

    describeSqlResults(name, { dialect, interleaves: true }, () => ({
      query: (sql, parameters) => shared.query(sql, parameters),
      async transaction(work) {
        const connection = await open();
        await connection.run('BEGIN');
        try {
          const result = await work(connection.query);
          await connection.run('COMMIT');
          return result;
        } catch (error) {
          await connection.run('ROLLBACK');
          throw error;
        }
      },
    }));
  });
}
