import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { closeServices, elapsed, openService } from '../../support/lock-services.js';
import { startSentinelSet, type SentinelSet } from '../../support/redis-sentinel.js';
import { until } from '../../support/until.js';

const LEASE_MS = 3000;
/** After the promotion: a new connection, and one look. */
const BACK_MS = 1500;
const SLACK_MS = 500;

describe('Redis behind a sentinel', () => {
  let set: SentinelSet;
  let key: string;
  let count = 0;

  beforeAll(async () => {
    set = await startSentinelSet();
  }, 60_000);
  beforeEach(() => {
    key = `sentinel:${++count}`;
  });
  afterEach(closeServices);
  afterAll(() => set?.stop());

  const open = () => openService({ ...set.options }, { watchdogTimeoutMs: LEASE_MS });

  it('the options of a sentinel are enough: locks are passed on between two services on the master', async () => {
    const [first, second] = [open(), open()];
    const lock = await first.acquire(key);
    const next = second.acquire(key);
    const eyes = new Redis(await set.masterPort(), '127.0.0.1');
    await until(async () => (await eyes.zcard(`nest_lock_line:{${key}}`)) === 1);
    expect(await eyes.exists(key)).toBe(1);
    eyes.disconnect();
    expect(await lock.release()).toBe('released');
    expect((await next).fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await (await next).release()).toBe('released');
  }, 15_000);

  it('after a failover new calls succeed within their waitMs, tokens grow, and a replicated lock is still held', async () => {
    const [first, second] = [open(), open()];
    const kept = await first.acquire(`${key}:kept`);
    const token = await first.withLock(key, (lock) => lock.fencingToken);
    await second.withLock(`${key}:warm`, () => undefined);

    await set.failover();
    const lock = second.acquire(key, { waitMs: 5000 });
    expect(await elapsed(lock)).toBeLessThan(BACK_MS + SLACK_MS);
    expect((await lock).fencingToken).toBeGreaterThan(token);
    const again = await first.acquire(`${key}:again`, { waitMs: 5000 });
    expect(kept.validForMs).toBeGreaterThan(0);
    expect(await second.tryAcquire(`${key}:kept`)).toBeNull();
    expect(await kept.release()).toBe('released');
    // The old master grants until it is demoted, and what it grants then is gone with it: that is told, too.
    for (const held of [await lock, again]) expect(['released', 'lost']).toContain(await held.release());

    const eyes = new Redis(await set.masterPort(), '127.0.0.1');
    await until(async () => (await eyes.exists(key, `${key}:kept`, `${key}:again`)) === 0);
    eyes.disconnect();
  }, 40_000);

  it('the crash of the master fails nobody who waits long enough, and tokens grow', async () => {
    const service = open();
    const token = await service.withLock(key, (lock) => lock.fencingToken);
    const before = await set.masterPort();
    await set.servers.find(({ port }) => port === before)?.kill();
    const lock = service.acquire(key, { waitMs: 30_000 });
    await until(async () => (await set.masterPort()) !== before);
    expect(await elapsed(lock)).toBeLessThan(BACK_MS + SLACK_MS);
    expect((await lock).fencingToken).toBeGreaterThan(token);
    expect(await (await lock).release()).toBe('released');
  }, 40_000);
});
