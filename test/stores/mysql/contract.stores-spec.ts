import { afterAll, beforeAll } from '@jest/globals';
import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';
import { mysqlStore, type MysqlQuery } from 'nestjs-distributed-lock/mysql';
import mysql, { type Pool, type ResultSetHeader, type RowDataPacket } from 'mysql2/promise';
import { startMariadbServer, type MariadbServer } from '#mariadb-server';
import { startMysqlServer } from '#mysql-server';
import { describeBackEndCases } from '../../../libs/distributed-lock/src/testing/lock-store.contract.js';
import { describeWith } from '../support/describe-with.js';

for (const [name, start] of [
  ['mariadb', startMariadbServer],
  ['mysql', startMysqlServer],
] as const) {
  describeWith(name)(`on a real server: ${name}`, () => {
    let server: MariadbServer;
    let pool: Pool;
    beforeAll(async () => {
      server = await start();
      pool = mysql.createPool({ uri: server.url, connectionLimit: 4 });
    }, 60_000);
    afterAll(async () => {
      await pool?.end();
      await server?.stop();
    });

    const query: MysqlQuery = async (sql, parameters) => {
      const [result] = await pool.query<RowDataPacket[] | ResultSetHeader>(sql, parameters);
      return Array.isArray(result) ? result : { rows: [], changed: result.affectedRows };
    };

    const describeContract = name === 'mysql' ? describeLockStoreContract : describeBackEndCases;
    describeContract(name, () => ({ store: mysqlStore(server.url) }));
    describeBackEndCases(`${name} through a query function`, () => ({
      store: mysqlStore({ query }),
    }));
  });
}
