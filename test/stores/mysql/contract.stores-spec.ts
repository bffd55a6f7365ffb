import { describeLockStoreContract } from 'nestjs-distributed-lock/testing';
import { mysqlStore } from 'nestjs-distributed-lock/mysql';
import { startMariadbServer } from '#mariadb-server';
import { startMysqlServer } from '#mysql-server';
import { describeBackEndCases } from '../../support/back-end-cases.js';
import { describeWith } from '../support/describe-with.js';
import { PATIENT } from '../../support/patient.js';
import { ownServer } from '../../support/own-server.js';

for (const [name, start] of [
  ['mariadb', startMariadbServer],
  ['mysql', startMysqlServer],
] as const) {
  describeWith(name)(`on a real server: ${name}`, () => {
    const server = ownServer(start);

    const describeContract = name === 'mysql' ? describeLockStoreContract : describeBackEndCases;
    describeContract(name, () => ({ store: mysqlStore(server.url, PATIENT) }));
  });
}
