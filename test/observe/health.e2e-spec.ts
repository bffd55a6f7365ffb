import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, Get, type INestApplication, Injectable, Module, Param } from '@nestjs/common';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { Test } from '@nestjs/testing';
import {
  type CallOptions,
  DistributedLockModule,
  type HoldSnapshot,
  Locked,
  LockService,
} from 'nestjs-distributed-lock';
import { LockHealthIndicator } from 'nestjs-distributed-lock/health';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { startRedisServer } from '#redis-server';
import { until } from '#until';
import { WatchedApp } from './watched-app.js';
import { ownRedis } from '../support/own-redis.js';

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
    const { code, locks } = await healthOf(app);
    expect([code, locks]).toEqual([
      503,
      { status: 'down', message: 'The store of the locks does not answer.' },
    ]);
    const { locks: detailed } = await app.get(LockHealthIndicator).check('locks', { details: true });
    expect(detailed).toMatchObject({ message: expect.stringMatching(/\b200 ms\b/) });
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

  it.each<[string, CallOptions]>([
    ['begin to wait for it', {}],
    ['take it over', { onBusy: 'takeover', graceMs: 5000, waitMs: 10_000 }],
  ])('stays down while a lock is not renewed and others %s', async (_, options) => {
    const { app, clock, locks, health } = await started();
    await locks.acquire('k');
    const events: string[] = [];
    locks.events$.subscribe(({ type }) => events.push(type));
    app.cutRenewals();
    await clock.advance(11_200);
    const next = locks.acquire('k', options).catch(() => undefined);
    await clock.advance(100);
    expect(events).toContain('contended');
    expect(events.includes('takeover')).toBe(options.onBusy === 'takeover');
    expect(await health.check()).toMatchObject({
      locks: { status: 'down', message: expect.stringMatching(/^1 held lock is not renewed/) },
    });
    await clock.advance(20_000);
    await (await next)?.release();
    expect(await health.check()).toEqual({ locks: { status: 'up' } });
  });

  it('is down once the application has closed its store', async () => {
    const redis = await onRedis();
    const health = new LockHealthIndicator(redis.locks);
    await redis.app.close();
    expect(await health.check()).toMatchObject({ locks: { status: 'down' } });
  });
});

@Injectable()
class Stock {
  constructor(private readonly locks: LockService) {}

  @Locked('stock:<id>')
  async take(id: string): Promise<readonly HoldSnapshot[]> {
    return id === '' ? [] : this.locks.held();
  }

  @Locked('count', { site: 'the nightly count' })
  async count(): Promise<readonly HoldSnapshot[]> {
    return this.locks.held();
  }
}

@Controller()
class GoodsController {
  constructor(private readonly stock: Stock) {}

  @Get(':id')
  @Locked('goods:<id>')
  purchase(@Param('id') id: string): Promise<readonly HoldSnapshot[]> {
    return this.stock.take(id);
  }
}

describe('an application that is asked what it holds', () => {
  const redis = ownRedis('held');
  let app: INestApplication;
  beforeEach(async () => {
    const options = { store: redisStore(redis.url), application: 'shop', logger: false, shutdownGraceMs: 0 };
    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot(options)],
      controllers: [GoodsController],
      providers: [Stock],
    }).compile();
    app = module.createNestApplication({ logger: false });
    await app.listen(0);
  });
  afterEach(() => app.close());

  it('names the method behind each lock, or the site that its decorator gives', async () => {
    const answer = await fetch(`${await app.getUrl()}/7`);
    const held = (await answer.json()) as HoldSnapshot[];
    expect(held.map(({ key, site }) => [key, site])).toEqual([
      ['goods:7', 'GoodsController.purchase'],
      ['stock:7', 'Stock.take'],
    ]);
    expect(await app.get(Stock).count()).toMatchObject([{ key: 'count', site: 'the nightly count' }]);
  });

  it('has told Redis which process each of its connections belongs to', async () => {
    await app.get(LockService).withLock(redis.key, () => undefined);
    const named = async () => {
      const list = (await redis.eyes.client.client('LIST')) as string;
      return list
        .split('\n')
        .filter((line) => /name=locks\/shop\/[\w.-]+\/(\d+) /.exec(line)?.[1] === `${process.pid}`);
    };
    await until(async () => (await named()).length >= 2);
    expect(await named()).toHaveLength(2);
  });
});
