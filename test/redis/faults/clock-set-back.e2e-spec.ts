import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ClockShift, missingShift } from '../../../verification/chaos/index.mjs';
import { ownRedis } from '../../support/own-redis.js';
import { elapsed, openService } from '../../support/lock-services.js';
import { until } from '#until';

const HOUR_MS = 3_600_000;
const LEASE_MS = 2000;
const RECHECK_MS = 1000;
const SLACK_MS = 900;

const whereClocksShift = missingShift() ? describe.skip : describe;

whereClocksShift('a server whose time of day is set back by an hour', () => {
  let shift: ClockShift;
  beforeAll(() => {
    shift = new ClockShift();
  }, 60_000);
  const redis = ownRedis('back', {
    get env() {
      return shift.env;
    },
  });
  beforeEach(() => shift.set(0));
  afterAll(() => shift?.remove());

  const setBack = () => shift.set(-HOUR_MS);
  const open = (url = redis.url) => openService(url, { watchdogTimeoutMs: LEASE_MS });

  it('loses no lock, passes it on at once, and gives larger tokens', async () => {
    const [holder, waiting] = [open(), open()];
    const lock = await holder.acquire(redis.key);
    const next = waiting.acquire(redis.key);
    await redis.eyes.untilQueued(redis.key, 1);
    await redis.eyes.untilListening(2);
    setBack();
    await redis.eyes.untilRenewed(redis.key);
    expect(lock.validForMs).toBeGreaterThan(0);
    expect(await redis.eyes.client.pttl(redis.key)).toBeLessThanOrEqual(LEASE_MS);
    expect(await lock.release()).toBe('released');
    expect(await elapsed(next)).toBeLessThan(SLACK_MS);
    expect((await next).fencingToken).toBeGreaterThan(lock.fencingToken);
    await (await next).release();
    const later = await open().acquire(redis.key);
    expect(later.fencingToken).toBeGreaterThan((await next).fencingToken);
    await later.release();
  });

  it('keeps what nobody renews for as much longer: the lock of a dead holder, until it is released by force', async () => {
    await redis.eyes.client.hset(redis.key, '0b1f0b1f-ae50-84e8-a984-fea8d272dba3:1', '1');
    await redis.eyes.client.pexpire(redis.key, LEASE_MS);
    setBack();
    const left = await redis.eyes.client.pttl(redis.key);
    expect(left).toBeGreaterThan(HOUR_MS);
    expect(left).toBeLessThanOrEqual(HOUR_MS + LEASE_MS);
    const service = open();
    expect(await service.tryAcquire(redis.key)).toBeNull();
    await service.forceRelease(redis.key);
    await (await service.acquire(redis.key, { waitMs: RECHECK_MS })).release();
  });

  it('does not keep a lock free for the clients of another library any longer than otherwise', async () => {
    const stranger = redis.eyes.client.duplicate();
    await stranger.subscribe(`redisson_lock__channel:{${redis.key}}`);
    const [holder, waiting] = [open(), open()];
    await (await holder.acquire(redis.key)).release();
    const lock = await holder.acquire(redis.key);
    const next = waiting.acquire(redis.key);
    await redis.eyes.untilQueued(redis.key, 1);
    await new Promise((resolve) => setTimeout(resolve, 250));
    await lock.release();
    expect(await redis.eyes.client.hexists(`nest_lock_meta:{${redis.key}}`, 'foreign_turn_until')).toBe(1);
    setBack();
    expect(await elapsed(next)).toBeLessThan(RECHECK_MS + SLACK_MS);
    await (await next).release();
    stranger.disconnect();
  });

  it('ends a release whose acquire was answered late by its lease and three looks, not by the hour', async () => {
    const service = open(redis.proxy.url);
    await service.withLock(`${redis.key}:warm`, () => undefined);
    redis.proxy.commands.replies.drop();
    const asked = service.acquire(redis.key);
    await until(async () => (await redis.eyes.holder(redis.key)) !== undefined);
    setBack();
    const released = (await asked).release();
    await until(async () => (await redis.eyes.holder(redis.key)) === undefined);
    expect(await elapsed(released)).toBeLessThan(LEASE_MS + 5 * RECHECK_MS);
    expect(await released).toBe('released');
  }, 15_000);
});
