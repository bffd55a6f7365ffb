import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { mysqlStore } from 'nestjs-distributed-lock/mysql';
import mysql from 'mysql2/promise';
import { TcpProxy } from '#tcp-proxy';
import { until } from '#until';
import { failureOf } from '../../support/lock-services.js';
import { describeCrowd } from '../support/crowd.contract.js';
import { describeFaults } from '../support/faults.contract.js';
import { PATIENT } from '../../support/patient.js';
import { describeOnBothServers, type Stage } from './support/on-both-servers.js';

/** Connections of services: all but that of the tests. */
async function connectionsOf(stage: Stage): Promise<number[]> {
  const rows = await stage.rows(
    'SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND db IS NOT NULL',
  );
  return rows.map((row) => Number(row['id'] ?? row['ID']));
}

async function opened(stage: Stage): Promise<LockService> {
  const service = stage.service();
  await service.withLock('warm', { waitMs: 20_000 }, () => undefined);
  return service;
}

describeOnBothServers('a service on MySQL, when something fails', (stage) => {
  describeFaults({
    product: 'MySQL',
    get server() {
      return stage.server;
    },
    get key() {
      return stage.key;
    },
    open: () => opened(stage),
    disconnect: async () => {
      for (const id of await connectionsOf(stage)) await stage.admin.query(`KILL ${id}`);
    },
    reconnect: () => stage.connect(),
    nowhere: mysqlStore('mysql://nobody@127.0.0.1:1/none'),
  });

  it('the server closes idle connections: that of the store is not one of them', async () => {
    await stage.admin.query('SET GLOBAL wait_timeout = 1');
    const service = stage.service();
    await service.withLock(stage.key, () => undefined);
    const before = await connectionsOf(stage);
    await pause(2500);
    await service.withLock(stage.key, () => undefined);
    expect(await connectionsOf(stage)).toEqual(before);
    await stage.admin.query('SET GLOBAL wait_timeout = 28800');
  }, 30_000);

  it('other transactions lock its rows in the opposite order: its calls are granted, and there is no deadlock', async () => {
    const service = stage.service();
    const [a, z] = [`${stage.key}-a`, `${stage.key}-z`];
    for (const key of [a, z]) await service.withLock(key, () => undefined);
    const deadlocks = async () =>
      Number(
        (
          await stage.rows(
            "SELECT COUNT AS n FROM information_schema.innodb_metrics WHERE NAME = 'lock_deadlocks'",
          )
        )[0]!['n'],
      );
    await stage.admin.query("SET GLOBAL innodb_monitor_enable = 'lock_deadlocks'");
    const before = await deadlocks();
    const rival = await mysql.createConnection(stage.server.url);
    await rival.query('SET SESSION innodb_lock_wait_timeout = 1');
    for (let round = 0; round < 8; round++) {
      await rival.query('BEGIN');
      await rival.query('SELECT 1 FROM nest_lock WHERE name = ? FOR UPDATE', [z]);
      // Both go in one packet, behind a reading that keeps the connection busy.
      const busy = service.inspect('another');
      const locks = [a, z].map((key) => service.acquire(key));
      await busy;
      await pause(30);
      await rival.query('SELECT 1 FROM nest_lock WHERE name = ? FOR UPDATE', [a]).catch(() => undefined);
      await rival.query('ROLLBACK');
      for (const lock of await Promise.all(locks)) await lock.release();
    }
    await rival.end();
    expect(await deadlocks()).toBe(before);
  }, 30_000);

  it('its table is dropped: the locks in it are lost, and the next call makes it again', async () => {
    const service = stage.service({ watchdogTimeoutMs: 1500 });
    const lock = await service.acquire(stage.key);
    await stage.admin.query('DROP TABLE nest_lock');
    await until(() => lock.signal.aborted);
    await (await service.acquire(`${stage.key}-another`)).release();
    const again = await service.acquire(stage.key);
    expect(again.fencingToken).toBeGreaterThan(lock.fencingToken);
    await again.release();
  }, 30_000);

  it('an acquire arrives after its caller has given up: it is refused, and the key is free', async () => {
    const proxy = await TcpProxy.before(stage.server.port, { keepsCommands: false });
    const service = stage.service({ url: `mysql://root@127.0.0.1:${proxy.port}/test` });
    await service.withLock('warm', () => undefined);
    const [link] = proxy.open;
    link!.requests.hold();
    expect(await failureOf(service.acquire(stage.key, { waitMs: 0 }))).toMatchObject({ reason: 'unknown' });
    expect(link!.requests.heldBytes).toBeGreaterThan(0);
    // By then the release was executed later than the not-after of the acquire, and is not repeated any more.
    await pause(2000);
    link!.deliverLate();
    await pause(300);
    expect(await stage.service().inspect(stage.key)).toBeNull();
    const states = await stage.rows(`SELECT state FROM nest_lock WHERE name = '${stage.key}'`);
    expect(states.filter(({ state }) => state !== null)).toEqual([]);
    await proxy.close();
  }, 30_000);

  describeCrowd(
    () => stage.service({}, PATIENT),
    () => stage.key,
    {},
  );
});
