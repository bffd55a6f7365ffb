import { expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { type Clock, systemClock } from '../../../libs/distributed-lock/src/common/clock.js';
import { until } from '#until';

const MINUTE_US = 60e6;
/** Sweeps come every five to ten minutes. */
const LONG_MS = 5 * 60_000;
const MANY = 3500;

export interface SweptTable {
  /** Another process. */
  open(clock?: Clock): LockService;
  run(sql: string): Promise<unknown>;
  /** All names, in order. */
  names(): Promise<readonly string[]>;
}

/** The first sweep of a process with this clock comes soon, and no other one. */
function withOneSweep(): Clock {
  let sweeps = 0;
  const soon = (ms: number) => (ms >= LONG_MS && sweeps++ === 0 ? 50 : ms);
  return { ...systemClock, after: (ms, task) => systemClock.after(soon(ms), task) };
}

/** What one sweep does, on each engine alike. */
export function describeSweep(table: () => SweptTable): void {
  const age = (name: string, minutes: number) =>
    table().run(`UPDATE nest_lock SET at = at - ${minutes * MINUTE_US} WHERE name = '${name}'`);

  it('deletes what was free for ten minutes, frees what was abandoned for an hour, and leaves the rest', async () => {
    const service = table().open();
    for (const key of ['free', 'old free']) await service.withLock(key, () => undefined);
    await service.acquire('crashed', { leaseMs: 1000 });
    await service.acquire('held', { leaseMs: 100 * 60_000 });
    for (const key of ['free', 'old free']) await until(async () => (await service.inspect(key)) === null);
    await age('old free', 11);
    for (const name of ['crashed', 'held']) await age(name, 65);
    const sweeper = table().open(withOneSweep());
    await sweeper.withLock('x', () => undefined);
    await until(async () => !(await table().names()).includes('old free'));
    await until(async () => (await service.inspect('crashed')) === null);
    expect(await table().names()).toEqual(['crashed', 'free', 'held', 'x']);
    expect(await service.inspect('held')).not.toBeNull();
  });

  it('goes through the whole table at one go, and no call of its process fails or waits for that', async () => {
    const service = table().open();
    await service.withLock('pattern', () => undefined);
    await until(async () => (await service.inspect('pattern')) === null);
    await age('pattern', 11);
    const columns = await copyable(table());
    for (let from = 0; from < MANY; from += 500) {
      const names = Array.from({ length: 500 }, (_, i) => `SELECT 'used once ${from + i}' AS name`);
      await table().run(
        `INSERT INTO nest_lock (name, ${columns}) SELECT n.name, ${columns.replaceAll(/\w+/g, 'p.$&')} ` +
          `FROM (${names.join(' UNION ALL ')}) AS n, nest_lock AS p WHERE p.name = 'pattern'`,
      );
    }
    const sweeper = table().open(withOneSweep());
    const slowest: number[] = [];
    await until(async () => {
      const before = performance.now();
      await sweeper.withLock('call', () => undefined);
      slowest.push(performance.now() - before);
      return !(await table().names()).some((name) => name.startsWith('used once'));
    });
    expect(Math.max(...slowest)).toBeLessThan(1000);
  }, 30_000);
}

/** The columns besides the name, which differ a little from engine to engine. */
async function copyable(table: SweptTable): Promise<string> {
  for (const own of ['clients', 'writer']) {
    const columns = `version, state, last, at, notes, ${own}`;
    const mailboxExists = await table.run(`SELECT ${columns} FROM nest_lock WHERE name = ''`).then(
      () => true,
      () => false,
    );
    if (mailboxExists) return columns;
  }
  return 'version, state, last, at, notes';
}
