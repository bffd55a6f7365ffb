import { afterEach, describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { metrics, type Attributes } from '@opentelemetry/api';
import { MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics';
import {
  DistributedLockModule,
  getLockServiceToken,
  memoryStore,
  type LockService,
} from 'nestjs-distributed-lock';
import { LeaderModule } from 'nestjs-distributed-lock/leader';
import { LockMetricsModule, measureLocks, type LockMetricsModuleOptions } from 'nestjs-distributed-lock/otel';
import { WatchedApp } from './watched-app.js';

/** Reads when it is asked to. */
class Reader extends MetricReader {
  protected override onForceFlush = async (): Promise<void> => undefined;
  protected override onShutdown = async (): Promise<void> => undefined;

  /** All points of one instrument: attributes without the registration, and the value (for histograms: count and sum). */
  async points(name: string): Promise<(readonly [Attributes, unknown])[]> {
    const { resourceMetrics } = await this.collect();
    const found = resourceMetrics.scopeMetrics
      .flatMap(({ metrics: all }) => all)
      .find(({ descriptor }) => descriptor.name === `distributed_lock.${name}`);
    return (found?.dataPoints ?? []).map(({ attributes, value }) => {
      const { 'distributed_lock.registration': _, ...others } = attributes;
      return [others, typeof value === 'number' ? value : pick(value)] as const;
    });
  }

  async sum(name: string): Promise<number> {
    return (await this.points(name)).reduce((sum, [, value]) => sum + Number(value), 0);
  }
}

/** Seconds, to the millisecond: sums of fractions are not exact. */
const pick = ({ count, sum = 0 }: { readonly count: number; readonly sum?: number }): object => ({
  count,
  sum: Math.round(sum * 1000) / 1000,
});

const reader = () => {
  const it = new Reader();
  return { reader: it, meterProvider: new MeterProvider({ readers: [it] }) };
};

let app: WatchedApp | undefined;

async function measured(options: LockMetricsModuleOptions = {}) {
  const { reader: read, meterProvider } = reader();
  app = await WatchedApp.start({}, { imports: [LockMetricsModule.forRoot({ meterProvider, ...options })] });
  return { read, app, locks: app.locks, clock: app.clock };
}

afterEach(async () => {
  await app?.close();
  app = undefined;
});

describe('the metrics of locks', () => {
  it('show how long callers waited and held, and who had the lock from whom', async () => {
    const { read, locks, clock } = await measured();
    const [first, second, third] = ['k', 'k', 'k'].map((key) => locks.acquire(key));
    await clock.advance(300);
    await (await first)?.release();
    await clock.advance(40);
    await (await second)?.release();
    await (await third)?.release();
    expect(await read.points('wait.duration')).toEqual([
      [{ 'distributed_lock.outcome': 'acquired' }, { count: 3, sum: 0.64 }],
    ]);
    expect(await read.points('hold.duration')).toEqual([
      [{ 'distributed_lock.outcome': 'released' }, { count: 3, sum: 0.34 }],
    ]);
    expect(await read.points('acquisitions')).toEqual([
      [{ 'distributed_lock.by': 'store' }, 2],
      [{ 'distributed_lock.by': 'local' }, 1],
    ]);
    expect(await read.sum('releases')).toBe(3);
  });

  it('show who waits and who holds now, and come back to nothing', async () => {
    const { read, locks, clock } = await measured();
    const gauges = async () => ({
      waiting: await read.sum('waiting_calls'),
      held: await read.sum('held_locks'),
    });
    const holder = await locks.acquire('k');
    const patient = locks.acquire('k');
    const impatient = locks.acquire('k', { waitMs: 100 }).catch(() => 'gave up');
    expect(await gauges()).toEqual({ waiting: 2, held: 1 });
    await clock.advance(100);
    expect(await impatient).toBe('gave up');
    expect(await gauges()).toEqual({ waiting: 1, held: 1 });
    await holder.release();
    await (await patient).release();
    expect(await gauges()).toEqual({ waiting: 0, held: 0 });
  });

  it('show how long the oldest lock is held, and nothing of locks that are released or lost', async () => {
    const { read, locks, clock } = await measured();
    const oldest = () => read.points('hold.max_age');
    expect(await oldest()).toEqual([[{}, 0]]);
    const first = await locks.acquire('first');
    await clock.advance(5000);
    const second = await locks.acquire('second');
    await locks.acquire('short', { leaseMs: 1000 });
    await clock.advance(1000);
    expect(await oldest()).toEqual([[{}, 6]]);
    await first.release();
    expect(await oldest()).toEqual([[{}, 1]]);
    await second.release();
    expect(await oldest()).toEqual([[{}, 0]]);
  });

  it('leave the locks of leaders out of the oldest one, and tell it for each label of keys', async () => {
    const { reader: read, meterProvider } = reader();
    const metricsOf = { meterProvider, keyLabel: (key: string) => key.split(':')[0] };
    const imports = [LockMetricsModule.forRoot(metricsOf), LeaderModule.forFeature('poller')];
    app = await WatchedApp.start({}, { imports });
    const { locks, clock } = app;
    await clock.advance(60_000);
    expect(await read.sum('leaders')).toBe(1);
    await locks.acquire('goods:1');
    await clock.advance(2000);
    const order = await locks.acquire('order:1');
    await locks.acquire('goods:2');
    await clock.advance(1000);
    expect(await read.points('hold.max_age')).toEqual([
      [{}, 0],
      [{ 'distributed_lock.key': 'goods' }, 3],
      [{ 'distributed_lock.key': 'order' }, 1],
    ]);
    await order.release();
    expect(await read.points('hold.max_age')).toContainEqual([{ 'distributed_lock.key': 'order' }, 0]);
  });

  it('show why callers left the queue', async () => {
    const { read, locks, clock } = await measured();
    await locks.acquire('k');
    const calls = [
      locks.acquire('k', { waitMs: 50 }),
      locks.acquire('k', { signal: AbortSignal.timeout(0) }),
    ].map((call) => call.catch(() => 'gave up'));
    await clock.advance(50);
    expect(await Promise.all(calls)).toEqual(['gave up', 'gave up']);
    expect(new Map(await read.points('abandoned_calls'))).toEqual(
      new Map([
        [{ 'error.type': 'LOCK_WAIT_TIMEOUT' }, 1],
        [{ 'error.type': 'aborted' }, 1],
      ]),
    );
    const outcomes = (await read.points('wait.duration')).map(([attributes]) => attributes);
    expect(outcomes).toContainEqual({
      'distributed_lock.outcome': 'abandoned',
      'error.type': 'LOCK_WAIT_TIMEOUT',
    });
  });

  it('show locks that were lost and renewals that were late', async () => {
    const { read, locks, clock, app: watched } = await measured();
    await locks.acquire('fixed', { leaseMs: 1000 });
    await clock.advance(1000);
    await locks.acquire('renewed');
    watched.cutRenewals();
    await clock.advance(31_000);
    expect(await read.points('losses')).toEqual([[{ 'distributed_lock.reason': 'expired' }, 2]]);
    expect(await read.sum('suspensions')).toBe(1);
    expect(await read.sum('held_locks')).toBe(0);
    const [[attributes, { count }]] = (await read.points('hold.duration')) as [
      [Attributes, { count: number }],
    ];
    expect([attributes, count]).toEqual([{ 'distributed_lock.outcome': 'lost' }, 2]);
  });

  it('name no key by default, and what keyLabel makes of it on request', async () => {
    const silent = await measured();
    await silent.locks.withLock('user:4711', () => undefined);
    expect(await silent.read.points('releases')).toEqual([[{}, 1]]);
    await app?.close();
    const telling = await measured({ keyLabel: (key) => key.split(':')[0] });
    await telling.locks.withLock('user:4711', () => undefined);
    await telling.locks.withLock('user:4712', () => undefined);
    expect(await telling.read.points('releases')).toEqual([[{ 'distributed_lock.key': 'user' }, 2]]);
  });

  it('hurt no lock when keyLabel throws, and count that', async () => {
    const { read, locks } = await measured({
      keyLabel: () => {
        throw new Error('no label');
      },
    });
    expect(await locks.withLock('k', () => 'done')).toBe('done');
    expect(await read.points('errors')).toEqual([[{ 'distributed_lock.during': 'listener' }, 3]]);
  });

  it('do not count nested calls of a key that is held', async () => {
    const { read, locks } = await measured();
    await locks.withLock('k', () => locks.withLock('k', () => undefined));
    expect(await read.sum('acquisitions')).toBe(1);
  });

  it('go to the meter provider of the program, which may be set until the application starts', async () => {
    const { reader: read, meterProvider } = reader();
    const module = LockMetricsModule.forRoot();
    metrics.setGlobalMeterProvider(meterProvider);
    try {
      app = await WatchedApp.start({}, { imports: [module] });
      await app.locks.withLock('k', () => undefined);
      expect(await read.sum('acquisitions')).toBe(1);
    } finally {
      metrics.disable();
    }
  });

  it.each(['reference', 'deep-hash'] as const)(
    'are of each registration, where Nest compares modules by %s',
    async (moduleIdGeneratorAlgorithm) => {
      const { reader: read, meterProvider } = reader();
      const names = ['orders', 'goods'];
      const imports = names.flatMap((name) => [
        DistributedLockModule.forRoot({ name, store: memoryStore() }),
        LockMetricsModule.forRoot({ name, meterProvider }),
      ]);
      const module = await Test.createTestingModule({ imports }, { moduleIdGeneratorAlgorithm }).compile();
      const twoServices = module.createNestApplication({ logger: false });
      try {
        await twoServices.init();
        for (const name of names) {
          const locks = twoServices.get<LockService>(getLockServiceToken(name), { strict: false });
          await locks.withLock('k', () => undefined);
        }
        expect(await read.sum('acquisitions')).toBe(2);
      } finally {
        await twoServices.close();
      }
    },
  );

  it('can be had without a module, for any LockService', async () => {
    app = await WatchedApp.start();
    const { reader: read, meterProvider } = reader();
    const locks: LockService = app.locks;
    measureLocks(locks, { meterProvider });
    await locks.withLock('k', () => undefined);
    expect(await read.sum('releases')).toBe(1);
  });
});
