import { mysqlStore } from 'nestjs-distributed-lock/mysql';
import { systemClock } from '../../../libs/distributed-lock/src/common/clock.js';
import { openServiceOn } from '../../support/lock-services.js';
import { PATIENT } from '../../support/patient.js';
import { describeSweep } from '../support/sweep.contract.js';
import { describeOnBothServers } from './support/on-both-servers.js';

describeOnBothServers('a sweep of the lock table', (stage) => {
  describeSweep(() => ({
    open: (clock = systemClock) => openServiceOn(mysqlStore(stage.server.url, PATIENT), { clock }),
    run: (sql) => stage.rows(sql),
    names: async () =>
      (await stage.rows('SELECT CAST(name AS CHAR) AS name FROM nest_lock ORDER BY nest_lock.name')).map(
        ({ name }) => name as string,
      ),
  }));
});
