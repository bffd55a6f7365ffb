import { describe, expect, it } from '@jest/globals';
import {
  Injectable,
  Module,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
  Scope,
  SetMetadata,
} from '@nestjs/common';
import { ContextIdFactory, Reflector } from '@nestjs/core';
import { Cron, Interval, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { Locked, memoryStore } from 'nestjs-distributed-lock';
import { CurrentTerm, LeaderModule, OnlyLeader, type Term } from 'nestjs-distributed-lock/leader';
import { MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics';
import { LockHealthIndicator } from 'nestjs-distributed-lock/health';
import { measureLocks } from 'nestjs-distributed-lock/otel';
import { until } from '#until';
import { type Instance, startInstance } from './support/instances.js';

@Injectable()
class Jobs {
  readonly runs: (number | undefined)[] = [];
  readonly finish: (() => void)[] = [];

  @Interval('tick', 20)
  @OnlyLeader('poller')
  async tick(@CurrentTerm() term?: Term): Promise<void> {
    this.runs.push(term?.fencingToken);
  }

  @OnlyLeader('poller')
  @Cron('0 0 1 1 *', { name: 'yearly' })
  async yearly(@CurrentTerm() term?: Term): Promise<void> {
    this.runs.push(term?.fencingToken);
  }

  @OnlyLeader('poller')
  @SetMetadata('kind', 'job')
  async add(a: number, b: number): Promise<number | undefined> {
    return a + b;
  }

  @OnlyLeader('poller')
  async work(): Promise<string | undefined> {
    await new Promise<void>((resolve) => this.finish.push(resolve));
    return 'done';
  }

  @OnlyLeader('poller')
  async fail(): Promise<void> {
    throw new Error('of the method');
  }

  @OnlyLeader('poller')
  @Locked('job')
  async locked(): Promise<string | undefined> {
    return 'locked';
  }
}

const jobsOf = ({ app }: Instance): Jobs => app.get(Jobs);
const withJobs = (options: Parameters<typeof startInstance>[0]) =>
  startInstance({
    imports: [LeaderModule.forFeature('poller'), ScheduleModule.forRoot()],
    providers: [Jobs],
    ...options,
  });

/** Two instances of which the first one leads. */
async function two() {
  const store = memoryStore();
  const first = await withJobs({ store });
  await until(() => first.leader.isLeader);
  return { first, next: await withJobs({ store }) };
}

describe('a call of an @OnlyLeader method', () => {
  it('by @Interval and @Cron runs on the instance that leads, under its term, and on no other', async () => {
    const { first, next } = await two();
    const token = first.leader.term?.fencingToken;
    await until(() => jobsOf(first).runs.length > 3);
    const [here, there] = [first, next].map(({ app }) => app.get(SchedulerRegistry).getCronJob('yearly'));
    const before = jobsOf(first).runs.length;
    await Promise.all([here!.fireOnTick(), there!.fireOnTick()]);
    await until(() => jobsOf(first).runs.length > before);
    expect(new Set(jobsOf(first).runs)).toEqual(new Set([token]));
    expect(jobsOf(next).runs).toEqual([]);
    await first.app.close();
    await until(() => jobsOf(next).runs.length > 0);
    expect(jobsOf(next).runs[0]).toBeGreaterThan(token!);
  });

  it('settles as the method does, and gives undefined where it does not run', async () => {
    const { first, next } = await two();
    expect(await jobsOf(first).add(1, 2)).toBe(3);
    expect(await jobsOf(first).locked()).toBe('locked');
    await expect(jobsOf(first).fail()).rejects.toThrow('of the method');
    expect(await jobsOf(next).add(1, 2)).toBeUndefined();
    expect(await jobsOf(next).fail()).toBeUndefined();
  });

  it('that runs delays the next leader, and keeps its result when the term is lost', async () => {
    const { first, next } = await two();
    const working = jobsOf(first).work();
    await until(() => jobsOf(first).finish.length === 1);
    const resigned = first.leader.resign();
    expect(await jobsOf(first).add(1, 2)).toBeUndefined();
    expect(next.leader.isLeader).toBe(false);
    jobsOf(first).finish[0]!();
    expect(await working).toBe('done');
    await resigned;
    await until(() => next.leader.isLeader);
    const late = jobsOf(next).work();
    await until(() => jobsOf(next).finish.length === 1);
    await next.locks.forceRelease('leader:poller');
    await until(() => first.leader.isLeader);
    jobsOf(next).finish[0]!();
    expect(await late).toBe('done');
  });

  it('keeps its name, length and metadata for other decorators', async () => {
    const { add } = Jobs.prototype as unknown as { readonly add: () => unknown };
    expect([add.name, add.length]).toEqual(['add', 2]);
    expect(new Reflector().get('kind', add)).toBe('job');
  });

  it('of a request-scoped object runs where this instance leads', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class Scoped {
      @OnlyLeader('poller')
      async run(@CurrentTerm() term?: Term): Promise<string | undefined> {
        return term?.name;
      }
    }
    const { app, leader } = await startInstance({ providers: [Scoped] });
    await until(() => leader.isLeader);
    const scoped = await app.resolve(Scoped, ContextIdFactory.create(), { strict: false });
    expect(await scoped.run()).toBe('poller');
  });

  it('of an object that is no provider is refused, and does not run', async () => {
    const stray = new Jobs();
    await expect(stray.add(1, 2)).rejects.toMatchObject({
      code: 'LOCK_CONFIGURATION',
      message:
        '@OnlyLeader on Jobs.add: Nest has injected no leaders into this object, so the method did not run. Make its class a provider of an application that imports LeaderModule.forFeature(…), and call it after the constructor: in onApplicationBootstrap() or later.',
    });
  });
});

describe('@OnlyLeader', () => {
  it('is refused on what is no method that gives a promise', () => {
    const only = OnlyLeader('poller') as (...args: unknown[]) => unknown;
    expect(() => only(Jobs)).toThrow('@OnlyLeader on a class: it belongs on a method');
    expect(() => only(Jobs, 'run', { value: async () => 1 })).toThrow('@OnlyLeader on run: it belongs');
    expect(() => only({}, 'run', { value: function* () {} })).toThrow('that returns a promise');
    expect(() => only({}, 'run', { value: async function* () {} })).toThrow('that returns a promise');
    expect(() => CurrentTerm()(Jobs, undefined, 0)).toThrow(
      '@CurrentTerm on the constructor of Jobs: it belongs on a parameter of a method.',
    );
  });

  it('is needed on a method with @CurrentTerm, which stops the boot without it', async () => {
    @Injectable()
    class Forgotten {
      async run(@CurrentTerm() term?: Term): Promise<string | undefined> {
        return term?.name;
      }
    }
    const start = startInstance({ imports: [LeaderModule.forFeature('poller')], providers: [Forgotten] });
    await expect(start).rejects.toMatchObject({
      code: 'LOCK_CONFIGURATION',
      message: expect.stringContaining('@CurrentTerm on Forgotten.run: only @OnlyLeader passes the term.'),
    });
  });

  it('does not compile on methods that are not async, nor on those that always have a result', () => {
    class Wrong {
      // @ts-expect-error: a call may give a promise of undefined
      @OnlyLeader('poller')
      async always(): Promise<string> {
        return '';
      }

      // @ts-expect-error: a call gives a promise
      @OnlyLeader('poller')
      sync(): void {}
    }
    expect(Wrong.name).toBe('Wrong');
  });
});

class Reader extends MetricReader {
  protected override onForceFlush = async (): Promise<void> => undefined;
  protected override onShutdown = async (): Promise<void> => undefined;

  async leaders(): Promise<readonly (readonly [name: unknown, value: unknown])[]> {
    const { resourceMetrics } = await this.collect();
    const all = resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics);
    const points = all.find(({ descriptor }) => descriptor.name === 'distributed_lock.leaders')?.dataPoints;
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
