import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import { until } from '#until';
import { describeOnBothServers, type Stage } from './support/on-both-servers.js';

/** How many statements of each kind the server has executed since `before`. */
async function counted(stage: Stage): Promise<Record<string, number>> {
  const rows = await stage.rows(
    `SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_insert', 'Com_insert_select', 'Com_update', 'Com_delete', 'Com_select', 'Com_begin', 'Connections')`,
  );
  return Object.fromEntries(rows.map((row) => [String(row['Variable_name']), Number(row['Value'])]));
}

async function statementsOf(stage: Stage, work: () => Promise<unknown>): Promise<Record<string, number>> {
  const before = await counted(stage);
  await work();
  const after = await counted(stage);
  const changes = Object.keys(before).map((name) => [name, after[name]! - before[name]!] as const);
  return Object.fromEntries(changes.filter(([, count]) => count > 0));
}

describeOnBothServers('statements of mysqlStore', (stage) => {
  it('an uncontended lock is one write with its reading, and its release is another', async () => {
    const service = stage.service();
    await (await service.acquire('warm')).release();
    const statements = await statementsOf(stage, async () => {
      for (let i = 0; i < 10; i++) await (await service.acquire(`${stage.key}-${i}`)).release();
    });
    expect(statements).toEqual({ Com_insert_select: 10, Com_update: 10, Com_select: 20 });
  });

  it('a held lock that is asked for once costs one write with its reading, and changes nothing', async () => {
    const [holder, other] = [stage.service(), stage.service()];
    await using lock = await holder.acquire(stage.key);
    await other.tryAcquire('warm');
    const row = () => stage.rows(`SELECT * FROM nest_lock WHERE name = '${stage.key}'`);
    const before = await row();
    expect(await other.tryAcquire(stage.key)).toBeNull();
    expect(await row()).toEqual(before);
    expect(lock.signal.aborted).toBe(false);
  });

  it('a process that waits for nothing and holds nothing sends nothing', async () => {
    const service = stage.service();
    await (await service.acquire(stage.key)).release();
    expect(await statementsOf(stage, () => pause(500))).toEqual({});
  });

  it('a holder reads its row four times a second, and 200 held locks are read together', async () => {
    const service = stage.service();
    const locks = await Promise.all(
      Array.from({ length: 200 }, (_, i) => service.acquire(`${stage.key}-${i}`)),
    );
    await pause(600);
    const { Com_select: reads = 0, ...others } = await statementsOf(stage, () => pause(1000));
    expect(others).toEqual({});
    expect(reads).toBeGreaterThanOrEqual(3);
    expect(reads).toBeLessThanOrEqual(20);
    await Promise.all(locks.map((lock) => lock.release()));
  });

  it('renewals of 500 locks go in a few packets', async () => {
    const service = stage.service({ watchdogTimeoutMs: 1500 }, { commandTimeoutMs: 500 });
    const keys = Array.from({ length: 500 }, (_, i) => `${stage.key}-${i}`);
    const locks = await Promise.all(keys.map((key) => service.acquire(key)));
    const statements = await statementsOf(stage, () => pause(1500));
    // Three beats at most, each of some packets, in which a transaction has up to 128 writes.
    expect(statements['Com_update']).toBeGreaterThanOrEqual(500);
    expect(statements['Com_begin']).toBeLessThanOrEqual(statements['Com_update']! / 30);
    await Promise.all(locks.map((lock) => lock.release()));
  });

  it('the first in the queue reads often, and a process further behind less often', async () => {
    const [holder, first, ...behind] = Array.from({ length: 6 }, () => stage.service());
    const lock = await holder!.acquire(stage.key);
    const waiting = [first!, ...behind].map((service) =>
      service.withLock(stage.key, { waitMs: 20_000 }, () => undefined),
    );
    await until(async () => (await holder!.inspect(stage.key))?.pending.length === 5);
    await pause(500);
    const { Com_select: reads = 0 } = await statementsOf(stage, () => pause(1000));
    // 1000 ms / 25 ms for the first, and 1000 / 50, 75, 100, 125 for the others; and rechecks and the holder's own.
    expect(reads).toBeGreaterThan(25);
    // Each begins quickly, with some ten readings. Five that all read as the first does make 250.
    expect(reads).toBeLessThan(180);
    await lock.release();
    await Promise.all(waiting);
  });
});
