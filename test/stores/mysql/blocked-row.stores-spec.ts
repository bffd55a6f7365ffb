import { expect, it } from '@jest/globals';
import mysql from 'mysql2/promise';
import { describeOnBothServers } from './support/on-both-servers.js';

describeOnBothServers('while a transaction keeps the row of one key locked', (stage) => {
  it('a process that waits for this key goes on with its other keys, and is granted after the commit', async () => {
    const { key, server } = stage;
    const [holder, other] = [stage.service(), stage.service()];
    const lock = await holder.acquire(key);
    const transaction = await mysql.createConnection(server.url);
    await transaction.query('BEGIN');
    await transaction.query('SELECT 1 FROM nest_lock WHERE name = ? LOCK IN SHARE MODE', [key]);
    const waiting = other.acquire(key, { waitMs: 30_000 });
    const releasing = lock.release();
    const until = performance.now() + 4000;
    const slowest: number[] = [];
    while (performance.now() < until) {
      const before = performance.now();
      await other.withLock(`${key}-another`, () => undefined).catch(() => undefined);
      slowest.push(performance.now() - before);
    }
    slowest.sort((a, b) => b - a);
    // The first write of the row costs its connection after commandTimeoutMs. Those after it fail at once.
    expect(slowest[2]).toBeLessThan(400);
    expect(slowest.length).toBeGreaterThan(20);
    await transaction.query('COMMIT');
    await transaction.end();
    await releasing;
    await (await waiting).release();
  }, 30_000);
});
