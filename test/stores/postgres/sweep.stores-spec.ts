import { expect, it } from '@jest/globals';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { systemClock } from '../../../libs/distributed-lock/src/time/clock.js';
import { until } from '#until';
import { openServiceOn } from '../../support/lock-services.js';
import { describeWith } from '../support/describe-with.js';
import { ownPostgres } from './support/own-postgres.js';

const MINUTE_US = 60e6;
/** Sweeps come every five to ten minutes. */
const LONG_MS = 5 * 60_000;

describeWith('postgres')('the sweep of the lock table', () => {
  const postgres = ownPostgres();
  const names = async () =>
    (await postgres.run<{ name: string }>('SELECT name FROM nest_lock ORDER BY name')).map(
      ({ name }) => name,
    );
  const age = (name: string, minutes: number) =>
    postgres.run(`UPDATE nest_lock SET at = at - $2::bigint WHERE name = $1`, [name, minutes * MINUTE_US]);

  it('deletes what was free for ten minutes, frees what was abandoned for an hour, and leaves the rest', async () => {
    const service = postgres.open();
    for (const key of ['free', 'old free']) await service.withLock(key, () => undefined);
    await service.acquire('crashed', { leaseMs: 1000 });
    await service.acquire('held', { leaseMs: 100 * 60_000 });
    await postgres.untilFree('free');
    await postgres.untilFree('old free');
    await age('old free', 11);
    for (const name of ['crashed', 'held']) await age(name, 65);
    const clock = {
      ...systemClock,
      after: (ms: number, task: () => void) => systemClock.after(ms >= LONG_MS ? 50 : ms, task),
    };
    const sweeper = openServiceOn(postgresStore(postgres.url), { clock });
    await sweeper.withLock('x', () => undefined);
    await until(async () => !(await names()).includes('old free'));
    await postgres.untilFree('crashed');
    expect(await names()).toEqual(['crashed', 'free', 'held', 'x']);
    expect(await service.inspect('held')).not.toBeNull();
  });
});
