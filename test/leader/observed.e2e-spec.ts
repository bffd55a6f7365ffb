import { describe, expect, it } from '@jest/globals';
import { Injectable, Module, type OnModuleDestroy, type OnApplicationBootstrap } from '@nestjs/common';
import { MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics';
import { memoryStore } from 'nestjs-distributed-lock';
import { LockHealthIndicator } from 'nestjs-distributed-lock/health';
import { LeaderModule } from 'nestjs-distributed-lock/leader';
import { measureLocks } from 'nestjs-distributed-lock/otel';
import { until } from '#until';
import { startInstance } from './support/instances.js';

class Reader extends MetricReader {
  protected override onForceFlush = async (): Promise<void> => undefined;
  protected override onShutdown = async (): Promise<void> => undefined;

  async leaders(): Promise<readonly (readonly [name: unknown, value: unknown])[]> {
    const { resourceMetrics } = await this.collect();
    const all = resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics);
    const points = all.find(({ descriptor }) => descriptor.name === 'distributed_lock.leader')?.dataPoints;
    return (points ?? []).map(({ attributes, value }) => [attributes['distributed_lock.leader.name'], value]);
  }
}

describe('who leads', () => {
  it('is told by the health check, with details: since when this instance leads, or which owner does', async () => {
    const store = memoryStore();
    const { app, leader, locks } = await startInstance({ store, providers: [LockHealthIndicator] });
    await until(() => leader.isLeader);
    const health = app.get(LockHealthIndicator);
    expect(await health.check()).toEqual({ locks: { status: 'up' } });
    expect(await health.check('locks', { details: true })).toEqual({
      locks: { status: 'up', leaders: { poller: { isLeader: true, since: leader.term?.since } } },
    });
    const other = await startInstance({ store, providers: [LockHealthIndicator] });
    const holder = (await locks.inspect('leader:poller'))?.holders[0];
    expect(await other.app.get(LockHealthIndicator).check('locks', { details: true })).toEqual({
      locks: { status: 'up', leaders: { poller: { isLeader: false, holder } } },
    });
  });

  it('is measured as 1 on the instance that leads and 0 on the others, from the start', async () => {
    const readers = [new Reader(), new Reader()];
    const store = memoryStore();
    const start = (reader: Reader) =>
      startInstance({
        store,
        imports: [LeaderModule.forFeature('poller')],
        onOpened: (locks) => measureLocks(locks, { meterProvider: new MeterProvider({ readers: [reader] }) }),
      });
    const first = await start(readers[0]!);
    await until(() => first.leader.isLeader);
    const next = await start(readers[1]!);
    expect(await readers[0]!.leaders()).toEqual([['poller', 1]]);
    expect(await readers[1]!.leaders()).toEqual([['poller', 0]]);
    await first.leader.resign();
    await until(() => next.leader.isLeader);
    expect(await readers[0]!.leaders()).toEqual([['poller', 0]]);
    expect(await readers[1]!.leaders()).toEqual([['poller', 1]]);
  });
});

describe('a shutdown', () => {
  it('ends the term before the hooks of other modules run, and a boot elects after them', async () => {
    const log: string[] = [];
    const order = (name: string) => {
      @Injectable()
      class Ordered implements OnApplicationBootstrap, OnModuleDestroy {
        async onApplicationBootstrap(): Promise<void> {
          await Promise.resolve();
          log.push(`${name} boots`);
        }

        async onModuleDestroy(): Promise<void> {
          log.push(`${name} ends`);
        }
      }
      return Ordered;
    };
    @Module({ providers: [order('module')] })
    class Other {}
    const { app, leader, poller } = await startInstance({
      imports: [LeaderModule.forFeature('poller'), Other],
      providers: [order('root')],
      onOpened: (locks) => locks.events$.subscribe(({ type }) => type === 'candidate' && log.push('stands')),
    });
    await until(() => leader.isLeader);
    leader.leader$.subscribe((term) => log.push(term ? 'leads' : 'leads no longer'));
    await app.close();
    expect(log).toEqual([
      'module boots',
      'root boots',
      'stands',
      'leads',
      'leads no longer',
      'root ends',
      'module ends',
    ]);
    expect(poller.ended).toHaveLength(1);
  });
});
