import { spawnSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { openService } from '../../support/lock-services.js';
import { ownRedis } from '../../support/own-redis.js';

const BLOCKED_MS = 1500;

/** Blocks this process, and has another one ask how long the lease still runs after that time. */
function leaseLeftAfterBlocking(url: string, key: string): number {
  const ask = `setTimeout(() => {
    const socket = require('net').connect(${new URL(url).port}, '127.0.0.1');
    socket.write('PTTL ${key}\\r\\n');
    socket.on('data', (data) => { console.log(String(data).trim().slice(1)); process.exit(); });
  }, ${BLOCKED_MS})`;
  return Number(spawnSync(process.execPath, ['-e', ask], { encoding: 'utf8' }).stdout);
}

describe('a client of the application with enableAutoPipelining', () => {
  const redis = ownRedis('pipelined');

  it('does not hold back the renewal that confirms a grant, when the caller blocks the event loop at once', async () => {
    const client = new Redis(redis.url, { enableAutoPipelining: true, lazyConnect: true });
    const waiter = openService(client);
    await waiter.withLock('warm', () => undefined);
    await redis.eyes.untilListening(1);
    const lock = await openService(redis.url).acquire('k');
    const left = waiter.withLock('k', () => leaseLeftAfterBlocking(redis.url, 'k'));
    await redis.eyes.untilQueued('k', 1);
    await lock.release();
    expect(await left).toBeGreaterThan(10_000);
    client.disconnect();
  }, 20_000);
});
