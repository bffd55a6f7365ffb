import { afterEach, describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { ownRedis } from '../../../support/own-redis.js';
import { elapsed } from '../../../support/lock-services.js';
import { until } from '#until';
import { Worker, type WorkerOptions } from './workers.js';

const LEASE_MS = 1500;
const SHORT_LEASE_MS = 1000;
const RECHECK_MS = 1000;
const SLACK_MS = 500;

describe('processes that crash and freeze', () => {
  const redis = ownRedis('crash');
  const workers: Worker[] = [];
  let tool: Redis | undefined;
  afterEach(async () => {
    tool?.disconnect();
    await Promise.all(workers.splice(0).map((worker) => worker.kill()));
  });

  const start = (role: WorkerOptions['role'], watchdogTimeoutMs = LEASE_MS): Worker => {
    const worker = new Worker({ role, url: redis.url, key: redis.key, watchdogTimeoutMs });
    workers.push(worker);
    return worker;
  };
  const open = () => redis.open({ watchdogTimeoutMs: LEASE_MS });

  it('the next owner has the lock of a killed holder when its lease is over, not before, and with a larger token', async () => {
    const holder = start('hold');
    const { fencingToken } = await holder.hear('held');
    const next = open().acquire(redis.key);
    await redis.eyes.untilQueued(redis.key, 1);
    await redis.eyes.untilRenewed(redis.key);

    const askedAt = performance.now();
    const left = await redis.eyes.client.pttl(redis.key);
    await holder.kill();
    const killedAt = performance.now();
    const lock = await next;
    expect(performance.now()).toBeGreaterThanOrEqual(askedAt + left - 2);
    expect(performance.now() - killedAt).toBeLessThan(LEASE_MS + RECHECK_MS);
    expect(lock.fencingToken).toBeGreaterThan(fencingToken as number);
    await lock.release();
  }, 30_000);

  /** A tool that looks on, such as Redis Insight: the server counts it as a receiver of every message. */
  const lookOn = async () => {
    tool = redis.eyes.client.duplicate();
    await tool.psubscribe('*');
  };

  it('a tool that listens to all channels does not make a free lock dearer: nobody takes it for one that waits', async () => {
    await lookOn();
    const service = open();
    const calls = async () =>
      [
        ...(await redis.eyes.client.info('commandstats')).matchAll(/^cmdstat_(?!info)[\w|]+:calls=(\d+)/gm),
      ].reduce((sum, [, count]) => sum + Number(count), 0);
    const price = async () => {
      const before = await calls();
      for (let i = 0; i < 20; i++) await (await service.acquire(redis.key)).release();
      return (await calls()) - before;
    };
    await price();
    const watched = await price();
    expect(await redis.eyes.remains(redis.key)).toEqual([]);
    tool?.disconnect();
    await until(async () => Number(await redis.eyes.client.pubsub('NUMPAT')) === 0);
    // One question more for each release.
    expect(watched).toBeLessThanOrEqual((await price()) + 20 + 10);
  });

  it('the queue goes on at once when its first waiter has been killed, also before the eyes of a tool that listens to all', async () => {
    await lookOn();
    const lock = await open().acquire(redis.key);
    const first = start('wait', 4 * LEASE_MS);
    await redis.eyes.untilQueued(redis.key, 1);
    const next = open().acquire(redis.key);
    await redis.eyes.untilQueued(redis.key, 2);
    await redis.eyes.untilListening(3);
    await first.kill();
    await redis.eyes.untilListening(2);
    await lock.release();
    expect(await elapsed(next)).toBeLessThan(SLACK_MS);
    await (await next).release();
  }, 30_000);

  it('the queue goes on at once when its first waiter has been killed', async () => {
    const lock = await open().acquire(redis.key);
    const first = start('wait', 4 * LEASE_MS);
    await redis.eyes.untilQueued(redis.key, 1);
    const next = open().acquire(redis.key);
    await redis.eyes.untilQueued(redis.key, 2);
    await redis.eyes.untilListening(3);
    await first.kill();
    await redis.eyes.untilListening(2);
    await lock.release();
    expect(await elapsed(next)).toBeLessThan(SLACK_MS);
    await (await next).release();
    // Its place is still in the line, and holds nobody up.
    expect(await elapsed(open().withLock(redis.key, () => undefined))).toBeLessThan(SLACK_MS);
  }, 30_000);

  it('a holder that was frozen beyond its lease knows it before its next write, and a careless write is refused', async () => {
    const holder = start('write');
    const { fencingToken } = await holder.hear('held');
    await holder.hear('writing');
    holder.signal('SIGSTOP');
    const frozen = elapsed(until(async () => (await redis.eyes.client.exists(redis.key)) === 0));
    expect(await frozen).toBeLessThan(LEASE_MS + SLACK_MS);

    const successor = await open().acquire(redis.key);
    expect(successor.fencingToken).toBeGreaterThan(fencingToken as number);
    await redis.eyes.client.set(`${redis.key}:register`, successor.fencingToken);
    holder.signal('SIGCONT');
    expect(await holder.hear('knows')).toMatchObject({ from: 'LOCK_LOST', aborted: true });
    // The one that was under way when it froze may arrive now; it is refused as well.
    expect(holder.told.filter(({ what }) => what === 'refused').length).toBeLessThanOrEqual(1);
    expect(await holder.hear('late')).toMatchObject({ accepted: false });
    expect(successor.validForMs).toBeGreaterThan(0);
    expect(await redis.eyes.client.get(`${redis.key}:register`)).toBe(String(successor.fencingToken));
    await successor.release();
  }, 30_000);

  it('a process that is granted while it is frozen blocks the queue for a short lease, and does not run on that grant', async () => {
    const lock = await open().acquire(redis.key);
    const frozen = start('wait', 4 * LEASE_MS);
    await redis.eyes.untilQueued(redis.key, 1);
    await redis.eyes.untilListening(2);
    const next = open().acquire(redis.key);
    await redis.eyes.untilQueued(redis.key, 2);
    frozen.signal('SIGSTOP');
    const [first] = await redis.eyes.queue(redis.key);
    await lock.release();
    expect(await redis.eyes.holder(redis.key)).toBe(first);
    expect(await elapsed(next)).toBeLessThan(SHORT_LEASE_MS + SLACK_MS);

    frozen.signal('SIGCONT');
    await redis.eyes.untilQueued(redis.key, 1);
    expect(frozen.has('served')).toBe(false);
    expect((await next).validForMs).toBeGreaterThan(0);
    const { fencingToken } = await next;
    await (await next).release();
    const served = await frozen.hear('served');
    expect(served.fencingToken).toBeGreaterThan(fencingToken);
    expect(served.accepted).toBe(true);
  }, 30_000);

  it('a holder that was frozen for less than its lease goes on', async () => {
    const holder = start('write');
    await holder.hear('writing');
    await redis.eyes.untilRenewed(redis.key);
    holder.signal('SIGSTOP');
    await until(async () => (await redis.eyes.client.pttl(redis.key)) < LEASE_MS / 2);
    holder.signal('SIGCONT');
    await redis.eyes.untilRenewed(redis.key);
    expect(holder.has('knows')).toBe(false);
  }, 30_000);
});
