import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import mysql, { type Connection } from 'mysql2/promise';
import { until } from '#until';
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
