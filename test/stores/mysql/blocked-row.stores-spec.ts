import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { mysqlStore, type MysqlQuery } from 'nestjs-distributed-lock/mysql';
import mysql, { type Connection, type ResultSetHeader, type RowDataPacket } from 'mysql2/promise';
import { until } from '#until';
import { closeServices, openServiceOn } from '../../support/lock-services.js';
import { describeOnBothServers, type Stage } from './support/on-both-servers.js';

/** A transaction of the application that keeps the row of the key locked. */
async function transactionOn(stage: Stage, key: string): Promise<Connection> {
  const transaction = await mysql.createConnection(stage.server.url);
  await transaction.query('BEGIN');
  await transaction.query('SELECT 1 FROM nest_lock WHERE name = ? LOCK IN SHARE MODE', [key]);
  return transaction;
}

async function counted(stage: Stage, name: string): Promise<number> {
  const rows = await stage.rows(`SHOW GLOBAL STATUS WHERE Variable_name LIKE '${name}'`);
  return rows.reduce((sum, row) => sum + Number(row['Value']), 0);
}

/** Asks for another key for a while. Fails when a call fails. */
async function goOn(service: LockService, key: string, ms: number): Promise<number> {
  const end = performance.now() + ms;
  let calls = 0;
  for (; performance.now() < end; calls++) await service.withLock(`${key}-another`, () => undefined);
  return calls;
}

describeOnBothServers('while a transaction keeps the row of one key locked', (stage) => {
  it('a process that waits for this key goes on with its other keys on the same connection, and is granted after the commit', async () => {
    const { key } = stage;
    const [holder, other] = [stage.service(), stage.service()];
    const lock = await holder.acquire(key);
    await other.withLock(`${key}-another`, () => undefined);
    const transaction = await transactionOn(stage, key);
    const connections = await counted(stage, 'Connections');
    const waiting = other.acquire(key, { waitMs: 30_000 });
    const releasing = lock.release();
    expect(await goOn(other, key, 2500)).toBeGreaterThan(20);
    expect(await counted(stage, 'Connections')).toBe(connections);
    await transaction.query('COMMIT');
    await transaction.end();
    await releasing;
    await (await waiting).release();
  }, 30_000);

  it('a process that waits for it asks a few times a second', async () => {
    const { key } = stage;
    const [holder, other] = [stage.service(), stage.service()];
    const lock = await holder.acquire(key);
    await other.withLock(`${key}-another`, () => undefined);
    const transaction = await transactionOn(stage, key);
    const waiting = other.acquire(key, { waitMs: 30_000 });
    await pause(500);
    const before = await counted(stage, 'Questions');
    await pause(2000);
    expect(await counted(stage, 'Questions')).toBeLessThan(before + 150);
    await transaction.query('COMMIT');
    await transaction.end();
    await lock.release();
    await (await waiting).release();
  }, 30_000);

  it('waiters through a query function leave the connections of its pool to other keys', async () => {
    const { key } = stage;
    const pool = mysql.createPool({ uri: stage.server.url, connectionLimit: 3 });
    const query: MysqlQuery = async (sql, parameters) => {
      const [result] = await pool.query<RowDataPacket[] | ResultSetHeader>(sql, parameters);
      return Array.isArray(result) ? result : { rows: [], changed: result.affectedRows };
    };
    const services = [1, 2, 3].map(() => openServiceOn(mysqlStore({ query })));
    for (const service of services) await service.withLock(key, () => undefined);
    const transaction = await transactionOn(stage, key);
    const waiting = services.map((service) => service.withLock(key, { waitMs: 30_000 }, () => undefined));
    for (const service of services) expect(await goOn(service, key, 1000)).toBeGreaterThan(5);
    await transaction.query('COMMIT');
    await transaction.end();
    await Promise.all(waiting);
    await closeServices();
    await pool.end();
  }, 30_000);

  it('a call for several keys waits, and the connection does not', async () => {
    const { key } = stage;
    const service = stage.service();
    await service.withLock([key, `${key}-b`, `${key}-another`], () => undefined);
    const transaction = await transactionOn(stage, key);
    const connections = await counted(stage, 'Connections');
    let isGranted = false;
    const waiting = service.withLock([key, `${key}-b`], { waitMs: 30_000 }, () => (isGranted = true));
    expect(await goOn(service, key, 1500)).toBeGreaterThan(10);
    expect(isGranted).toBe(false);
    expect(await counted(stage, 'Connections')).toBe(connections);
    await transaction.query('COMMIT');
    await transaction.end();
    await waiting;
    await until(async () => (await service.inspect(key)) === null);
  }, 30_000);
});
