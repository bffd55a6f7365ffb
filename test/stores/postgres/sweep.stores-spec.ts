import { expect, it } from '@jest/globals';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { systemClock } from '../../../libs/distributed-lock/src/common/clock.js';
import { until } from '#until';
import { openServiceOn } from '../../support/lock-services.js';
import { PATIENT } from '../../support/patient.js';
import { describeSweep } from '../support/sweep.contract.js';
import { describeWith } from '../support/describe-with.js';
import { ownPostgres } from './support/own-postgres.js';

describeWith('postgres')('a sweep of the lock table in PostgreSQL', () => {
  const postgres = ownPostgres();
  const names = 'SELECT name FROM nest_lock ORDER BY name';
  describeSweep(() => ({
    open: (clock = systemClock) => openServiceOn(postgresStore(postgres.url, PATIENT), { clock }),
    run: (sql) => postgres.run(sql),
    names: async () => (await postgres.run<{ name: string }>(names)).map(({ name }) => name),
  }));

  it('has a connection of its own, and closes it', async () => {
    const own = `SELECT FROM pg_stat_activity WHERE application_name = 'nestjs-distributed-lock'`;
    const soon = (ms: number) => (ms >= 5 * 60_000 ? 50 : ms);
    const clock = {
      ...systemClock,
      after: (ms: number, task: () => void) => systemClock.after(soon(ms), task),
    };
    // One connection for its calls, and none that listens.
    const service = openServiceOn(postgresStore(postgres.url, { notifications: 'poll', ...PATIENT }), {
      clock,
    });
    await service.withLock(postgres.key, () => undefined);
    await until(async () => (await postgres.run(own)).length === 2);
    await until(async () => (await postgres.run(own)).length === 1);
    expect(await service.tryAcquire('after the sweeps')).not.toBeNull();
  });
});
