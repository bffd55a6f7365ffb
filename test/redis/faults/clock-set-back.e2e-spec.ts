import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { startRedisServer, type RedisServer } from '#redis-server';
import { ClockShift, missingShift } from '../../../chaos/index.mjs';
import { closeServices, elapsed, openService } from '../../support/lock-services.js';
import { RedisEyes } from '../../support/redis-eyes.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

const HOUR_MS = 3_600_000;
const LEASE_MS = 2000;
const LOOK_MS = 1000;
const SLACK_MS = 500;

const whereClocksShift = missingShift() ? describe.skip : describe;

whereClocksShift('a server whose time of day is set back by an hour', () => {
  let shift: ClockShift;
  let server: RedisServer;
  let eyes: RedisEyes;
  let key: string;
  let count = 0;

  beforeAll(async () => {
    shift = new ClockShift();
    server = await startRedisServer({ env: shift.env });
    eyes = new RedisEyes(server.url);
  }, 60_000);
  beforeEach(() => {
    key = `back:${++count}`;
    shift.set(0);
  });
  afterEach(closeServices);
  afterAll(async () => {
    eyes?.close();
    await server?.stop();
    shift?.remove();
  });

  const setBack = () => shift.set(-HOUR_MS);
  const open = (url = server.url) => openService(url, { watchdogTimeoutMs: LEASE_MS });

  it('loses no lock, passes it on at once, and gives larger tokens', async () => {
    const [holder, waiting] = [open(), open()];
    const lock = await holder.acquire(key);
    const next = waiting.acquire(key);
    await eyes.untilInLine(key, 1);
    await eyes.untilListening(2);
    setBack();
    await eyes.untilRenewed(key);
    expect(lock.validForMs).toBeGreaterThan(0);
    expect(await eyes.client.pttl(key)).toBeLessThanOrEqual(LEASE_MS);
    expect(await lock.release()).toBe('released');
    expect(await elapsed(next)).toBeLessThan(SLACK_MS);
    expect((await next).fencingToken).toBeGreaterThan(lock.fencingToken);
    await (await next).release();
    const later = await open().acquire(key);
    expect(later.fencingToken).toBeGreaterThan((await next).fencingToken);
    await later.release();
  });

  it('keeps what nobody renews for as much longer: the lock of a dead holder, until it is released by force', async () => {
    await eyes.client.hset(key, '0b1f0b1f-ae50-84e8-a984-fea8d272dba3:1', '1');
    await eyes.client.pexpire(key, LEASE_MS);
    setBack();
    const left = await eyes.client.pttl(key);
    expect(left).toBeGreaterThan(HOUR_MS);
    expect(left).toBeLessThanOrEqual(HOUR_MS + LEASE_MS);
    const service = open();
    expect(await service.tryAcquire(key)).toBeNull();
    await service.forceRelease(key);
    await (await service.acquire(key, { waitMs: LOOK_MS })).release();
  });

  it('does not keep a lock free for the clients of another library any longer than otherwise', async () => {
    const stranger = eyes.client.duplicate();
    await stranger.subscribe(`redisson_lock__channel:{${key}}`);
    const [holder, waiting] = [open(), open()];
    await (await holder.acquire(key)).release();
    const lock = await holder.acquire(key);
    const next = waiting.acquire(key);
    await eyes.untilInLine(key, 1);
    await new Promise((resolve) => setTimeout(resolve, 250));
    await lock.release();
    expect(await eyes.client.hexists(`nest_lock_meta:{${key}}`, 'open')).toBe(1);
    setBack();
    expect(await elapsed(next)).toBeLessThan(LOOK_MS + SLACK_MS);
    await (await next).release();
    stranger.disconnect();
  });

  it('ends a release whose acquire was answered late by its lease and three looks, not by the hour', async () => {
    const proxy = await TcpProxy.before(server.port);
    const service = open(proxy.url);
    await service.withLock(`${key}:warm`, () => undefined);
    proxy.commands.replies.drop();
    const asked = service.acquire(key);
    await until(async () => (await eyes.holder(key)) !== undefined);
    setBack();
    const released = (await asked).release();
    await until(async () => (await eyes.holder(key)) === undefined);
    expect(await elapsed(released)).toBeLessThan(LEASE_MS + 5 * LOOK_MS);
    expect(await released).toBe('released');
    await closeServices();
    await proxy.close();
  }, 15_000);
});
