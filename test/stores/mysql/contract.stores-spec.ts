import { afterAll, beforeAll } from '@jest/globals';
import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';
import { mysqlStore } from 'nestjs-distributed-lock/mysql';
import { startMariadbServer, type MariadbServer } from '#mariadb-server';
import { startMysqlServer } from '#mysql-server';
import { describeBackEndCases } from '../../support/back-end-cases.js';
import { describeWith } from '../support/describe-with.js';
import { PATIENT } from '../support/patient.js';

for (const [name, start] of [
  ['mariadb', startMariadbServer],
  ['mysql', startMysqlServer],
] as const) {
  describeWith(name)(`on a real server: ${name}`, () => {
    let server: MariadbServer;
    beforeAll(async () => {
      server = await start();
    }, 60_000);
    afterAll(async () => {
      await server?.stop();
    });

    const describeContract = name === 'mysql' ? describeLockStoreContract : describeBackEndCases;
    describeContract(name, () => ({ store: mysqlStore(server.url, PATIENT) }));
  });
}
