import { Controller, Get, Module, type INestApplication } from '@nestjs/common';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { DistributedLockModule, LockService } from 'nestjs-distributed-lock';
import { LockHealthIndicator } from 'nestjs-distributed-lock/health';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { startRedisServer } from '#redis-server';
import { until } from '#until';
import { WatchedApp } from './watched-app.js';

@Controller('health')
class HealthController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly locks: LockHealthIndicator,
  ) {}

  @Get()
  @HealthCheck()
  check() {
    return this.health.check([() => this.locks.check()]);
  }
}

@Module({
  imports: [TerminusModule.forRoot({ logger: false })],
  controllers: [HealthController],
  providers: [LockHealthIndicator],
})
class HealthModule {}

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function healthOf(app: INestApplication): Promise<{ readonly code: number; readonly locks: unknown }> {
  const response = await fetch(`${await app.getUrl()}/health`);
  const body = (await response.json()) as { readonly details: { readonly locks: unknown } };
  return { code: response.status, locks: body.details.locks };
}

async function onRedis() {
  const redis = await startRedisServer();
  closers.push(() => redis.stop());
  const store = redisStore(redis.url, { commandTimeoutMs: 200 });
  const locks = DistributedLockModule.forRoot({ store, watchdogTimeoutMs: 900, logger: false });
  const module = await Test.createTestingModule({ imports: [locks, HealthModule] }).compile();
  const app = module.createNestApplication({ logger: false });
  await app.listen(0, '127.0.0.1');
  closers.push(() => app.close());
  await until(async () => (await healthOf(app)).code === 200);
  return { redis, app, locks: app.get(LockService) };
}

describe('the health of locks', () => {
  it('is up while Redis answers, and leaves no trace in it', async () => {
    const { app, locks } = await onRedis();
    expect(await healthOf(app)).toEqual({ code: 200, locks: { status: 'up' } });
    expect(await locks.inspect('nestjs-distributed-lock:probe')).toBeNull();
  });

  it('is down within one command of the store when Redis hangs, and up again when it goes on', async () => {
    const { redis, app } = await onRedis();
    await redis.pause();
    const askedAt = Date.now();
    const { code, locks } = await healthOf(app);
    expect(Date.now() - askedAt).toBeLessThan(2000);
    expect([code, locks]).toEqual([
      503,
      { status: 'down', message: 'The store of the locks does not answer.' },
    ]);
    await redis.resume();
    await until(async () => (await healthOf(app)).code === 200);
  });
});

describe('the health of a store that cannot be reached', () => {
  it('names neither hosts nor ports, unless details are asked for', async () => {
    const store = redisStore('redis://127.0.0.1:1', { commandTimeoutMs: 100 });
    const locks = new LockService({ store });
    closers.push(() => locks.close());
    const health = new LockHealthIndicator(locks);
    expect(await health.check()).toEqual({
      locks: { status: 'down', message: 'The store of the locks does not answer.' },
    });
    expect(await health.check('locks', { details: true })).toMatchObject({
      locks: {
        message: expect.stringMatching(/^The store of the locks does not answer: Redis .*127\.0\.0\.1:1/),
      },
    });
  });
});

describe('the health of held locks', () => {
  async function started() {
    const app = await WatchedApp.start({ logger: false });
    closers.push(() => app.close());
    return { app, clock: app.clock, locks: app.locks, health: new LockHealthIndicator(app.locks) };
  }

  it('is down while a renewal is missing, says how long, names no key, and is up again after a late renewal', async () => {
    const { app, clock, locks, health } = await started();
    await locks.acquire('secret:1');
    await locks.acquire('secret:2');
    app.cutRenewals();
    await clock.advance(11_200);
    const { locks: result } = await health.check();
    expect(result).toEqual({
      status: 'down',
      message: expect.stringMatching(/^2 held locks are not renewed; the first is lost in \d{5} ms\.$/),
    });
    app.mend();
    await clock.advance(2000);
    expect(await health.check()).toEqual({ locks: { status: 'up' } });
  });

  it.each(['lost', 'released'])('is up again when the lock in question is %s', async (end) => {
    const { app, clock, locks, health } = await started();
    const lock = await locks.acquire('k');
    app.cutRenewals();
    await clock.advance(11_200);
    expect(await health.check('mine')).toMatchObject({ mine: { status: 'down' } });
    if (end === 'released') await lock.release();
    else await locks.forceRelease('k');
    await clock.settle();
    expect(await health.check('mine')).toEqual({ mine: { status: 'up' } });
  });

  it('stays down while one of several readers of a lease that is not renewed is inside', async () => {
    const { app, clock, locks, health } = await started();
    const readers = await Promise.all([1, 2].map(() => locks.acquire('k', { mode: 'shared' })));
    app.cutRenewals();
    await clock.advance(11_200);
    await readers[0]?.release();
    expect(await health.check()).toMatchObject({ locks: { status: 'down' } });
    await readers[1]?.release();
    expect(await health.check()).toEqual({ locks: { status: 'up' } });
  });

  it('is down once the application has closed its store', async () => {
    const redis = await onRedis();
    const health = new LockHealthIndicator(redis.locks);
    await redis.app.close();
    expect(await health.check()).toMatchObject({ locks: { status: 'down' } });
  });
});
