import { describe, expect, it } from '@jest/globals';
import { Injectable, Module, Scope, type DynamicModule, type Provider } from '@nestjs/common';
import { LazyModuleLoader } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  CurrentLock,
  DistributedLockModule,
  LockConfigurationError,
  LockService,
  Locked,
  memoryStore,
  type Lock,
  type DistributedLockModuleOptions,
} from 'nestjs-distributed-lock';
import {
  CurrentTerm,
  getLeaderToken,
  InjectLeader,
  LeaderModule,
  OnDemoted,
  OnElected,
  OnlyLeader,
  type Leader,
  type Term,
} from 'nestjs-distributed-lock/leader';
import { TestLocks } from 'nestjs-distributed-lock/testing';
import { until } from '#until';
import { startInstance } from './support/instances.js';

const leaderOf = (name: string) => LeaderModule.forFeature(name);

/** The message with which the boot of an application stops. */
async function refusalOf(
  imports: DynamicModule[],
  providers: Provider[] = [],
  options: DistributedLockModuleOptions = {},
): Promise<string> {
  const locks = DistributedLockModule.forRoot({ logger: false, ...options });
  const boot = Test.createTestingModule({ imports: [locks, ...imports], providers })
    .compile()
    .then((app) => app.init());
  const error: unknown = await boot.then(
    (app) => app.close().then(() => 'it booted'),
    (it: unknown) => it,
  );
  expect(error).toBeInstanceOf(LockConfigurationError);
  return (error as Error).message;
}

@Injectable()
class Nameless {
  readonly terms: Term[] = [];

  @OnElected()
  elected(term: Term): void {
    this.terms.push(term);
  }

  @OnlyLeader()
  async poll(@CurrentTerm() term?: Term): Promise<number | undefined> {
    return term?.fencingToken;
  }
}

describe('a name of a leader', () => {
  it('may be left out where the application has one', async () => {
    const { app, leader } = await startInstance({ providers: [Nameless] });
    await until(() => app.get(Nameless).terms.length === 1);
    expect(await app.get(Nameless).poll()).toBe(leader.term?.fencingToken);
  });

  it('must be given where there are several', async () => {
    expect(await refusalOf([leaderOf('poller'), leaderOf('mailer')], [Nameless])).toBe(
      "@OnlyLeader on Nameless.poll: name the leader, as there are several: 'poller', 'mailer'.",
    );
  });

  it('that no module has stops the boot with the nearest one', async () => {
    class Mistaken {
      @OnDemoted('poler')
      demoted(): void {}
    }
    expect(await refusalOf([leaderOf('poller')], [Mistaken])).toBe(
      "@OnDemoted on Mistaken.demoted: no LeaderModule.forFeature has the name 'poler'; did you mean 'poller'? Import LeaderModule.forFeature('poler'), or correct the name.",
    );
  });

  it.each([undefined, '', 1, null, ['poller']])('must be a text: %p', (name) => {
    const forFeature = (it: never) => LeaderModule.forFeature(it);
    for (const call of [forFeature, InjectLeader, getLeaderToken] as ((name: never) => unknown)[]) {
      expect(() => call(name as never)).toThrow(LockConfigurationError);
    }
    if (name === undefined) return;
    for (const call of [OnElected, OnDemoted, OnlyLeader] as ((name: never) => unknown)[]) {
      expect(() => call(name as never)).toThrow(LockConfigurationError);
    }
  });
});

describe('the options of LeaderModule.forFeature', () => {
  it.each<[object, string]>([
    [{ service: 1 }, 'service must be the name of a registration; it is a number.'],
    [{ keyPrefix: 1 }, 'keyPrefix must be a text; it is a number.'],
    [{ prefix: 'x' }, 'LeaderModule.forFeature has no option "prefix"; did you mean keyPrefix?'],
  ])('are refused at once when they are wrong: %p', (options, message) => {
    expect(() => LeaderModule.forFeature('poller', options)).toThrow(message);
  });

  it('name a registration, whose locks and times they use', async () => {
    const named = DistributedLockModule.forRoot({ name: 'leaders', logger: false, store: memoryStore() });
    const { leader, locks } = await startInstance({
      imports: [named, LeaderModule.forFeature('poller', { service: 'leaders', keyPrefix: 'chief:' })],
    });
    await until(() => leader.isLeader);
    expect(leader.term?.key).toBe('chief:poller');
    expect(await locks.inspect('chief:poller')).toBeNull();
  });

  it('that name no registration stop the boot', async () => {
    expect(await refusalOf([LeaderModule.forFeature('poller', { service: 'leaders' })])).toBe(
      "LeaderModule.forFeature('poller'): no DistributedLockModule has the name \"leaders\". Import DistributedLockModule.forRoot({ name: 'leaders', … }), or correct the option service.",
    );
  });

  it('that differ for one name stop the boot, and equal ones share the leader', async () => {
    const two = [leaderOf('poller'), LeaderModule.forFeature('poller', { keyPrefix: 'chief:' })];
    expect(await refusalOf(two)).toBe(
      "LeaderModule.forFeature('poller') was called twice, with different options. Give both the same, or each a name of its own.",
    );
    const { poller, leader } = await startInstance({ imports: [leaderOf('poller'), leaderOf('poller')] });
    await until(() => leader.isLeader);
    expect(poller.terms).toHaveLength(1);
  });

  it.each<DistributedLockModuleOptions['defaults'] & object>([
    { leaseMs: 1000 },
    { mode: 'shared' },
    { permits: 2 },
  ])('must not lead to a registration whose defaults make another lock: %p', async (defaults) => {
    const [name] = Object.keys(defaults);
    expect(await refusalOf([leaderOf('poller')], [], { defaults })).toContain(
      `the defaults of the registration "default" have ${name}`,
    );
  });
});

describe('two leaders in one application', () => {
  it('are elected each for itself, and each calls its own methods', async () => {
    @Injectable()
    class Both {
      readonly seen: string[] = [];

      constructor(@InjectLeader('mailer') readonly mailer: Leader) {}

      @OnElected('poller')
      @OnElected('mailer')
      elected({ name }: Term): void {
        this.seen.push(name);
      }
    }
    const store = memoryStore();
    const imports = [leaderOf('poller'), leaderOf('mailer')];
    const { app, leader, poller } = await startInstance({ store, imports, providers: [Both] });
    const both = app.get(Both);
    await until(() => leader.isLeader && both.mailer.isLeader);
    expect(both.seen.toSorted()).toEqual(['mailer', 'poller']);
    expect(poller.terms.map(({ name }) => name)).toEqual(['poller']);
    const other = await startInstance({ store, imports });
    await both.mailer.resign();
    const mailer = other.app.get<Leader>(getLeaderToken('mailer'), { strict: false });
    await until(() => mailer.isLeader);
    expect([leader.isLeader, both.mailer.isLeader, other.leader.isLeader]).toEqual([true, false, false]);
  });
});

describe('a method with @OnElected or @OnDemoted', () => {
  it('is called under a symbol for a name', async () => {
    const secret = Symbol('secret');
    @Injectable()
    class Secret {
      readonly terms: Term[] = [];

      @OnElected('poller')
      [secret](term: Term): void {
        this.terms.push(term);
      }
    }
    const { app, leader } = await startInstance({ providers: [Secret] });
    await until(() => leader.isLeader);
    expect(app.get(Secret).terms.map(({ name }) => name)).toEqual(['poller']);
  });

  it.each([Scope.REQUEST, Scope.TRANSIENT])(
    'stops the boot in a class of which there is no single object: scope %i',
    async (scope) => {
      @Injectable({ scope })
      class Scoped {
        @OnElected('poller')
        elected(): void {}
      }
      expect(await refusalOf([leaderOf('poller')], [Scoped])).toBe(
        '@OnElected on Scoped.elected: the class is request-scoped or transient, so there is no single object to call. Move the method to a provider with the default scope.',
      );
    },
  );

  it('is told where its class is no provider, so that nothing calls it', async () => {
    class Forgotten {
      @OnElected('poller')
      elected(): void {}
    }
    const { events } = await startInstance({});
    const messages = events.flatMap((event) => (event.type === 'warning' ? event.message : []));
    expect(messages.filter((it) => it.includes(Forgotten.name))).toEqual([
      "@OnElected('poller') in Forgotten: the class is no provider of this application, so nothing calls the method. Add it to the providers of a module.",
    ]);
  });

  it('is called once for an object that has several tokens, and of a value or a factory, too', async () => {
    const { app } = await startInstance({
      providers: [
        { provide: 'made', useFactory: () => new Nameless() },
        { provide: 'alias', useExisting: 'made' },
        { provide: 'value', useValue: new Nameless() },
      ],
    });
    const made = app.get<Nameless>('made');
    const value = app.get<Nameless>('value');
    await until(() => made.terms.length > 0 && value.terms.length > 0);
    expect([made.terms.length, value.terms.length]).toEqual([1, 1]);
  });

  it('must be a method of objects', () => {
    const mark = OnElected('poller') as (...args: unknown[]) => unknown;
    expect(() => mark(Nameless)).toThrow('@OnElected on a class: it belongs on a method');
    expect(() => mark(Nameless, 'run', { value: () => 1 })).toThrow('@OnElected on run: it belongs');
    expect(() => mark({}, 'run', { value: 1 })).toThrow(LockConfigurationError);
  });
});

describe('a module that is loaded by LazyModuleLoader', () => {
  @Injectable()
  class Jobs {
    @OnElected('poller')
    elected(): void {}

    @OnlyLeader('poller')
    async poll(@CurrentTerm() term?: Term): Promise<string | undefined> {
      return term?.name;
    }

    @Locked('job:<id>')
    async run(id: number, @CurrentLock() lock?: Lock): Promise<string | undefined> {
      return `${id} ${lock?.key}`;
    }
  }

  @Module({ providers: [Jobs], exports: [Jobs] })
  class LazyJobs {}

  @Module({ imports: [LeaderModule.forFeature('mailer')] })
  class LazyLeaders {}

  it('cannot bring a leader, which would never stand: the load says so', async () => {
    const { app } = await startInstance({});
    const load = app.get(LazyModuleLoader).load(() => LazyLeaders);
    await expect(load).rejects.toThrow(
      "LeaderModule.forFeature('mailer') is loaded by LazyModuleLoader, and Nest calls no hooks of such a module, so this instance would never stand for election. Import it in a module that is there at the boot.",
    );
  });

  it('has its locked methods and those of leaders', async () => {
    const { app, leader } = await startInstance({});
    await until(() => leader.isLeader);
    const jobs = (await app.get(LazyModuleLoader).load(() => LazyJobs)).get(Jobs);
    expect([await jobs.poll(), await jobs.run(7)]).toEqual(['poller', '7 job:7']);
  });

  it('is not taken for one where a test overrides the locks', async () => {
    await using locks = new TestLocks();
    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot(), LeaderModule.forFeature('poller')],
      providers: [Jobs],
    })
      .overrideProvider(LockService)
      .useValue(locks)
      .compile();
    await module.init();
    const leader = module.get<Leader>(getLeaderToken('poller'));
    await until(() => leader.isLeader);
    await module.close();
    expect(leader.isLeader).toBe(false);
  });
});
