import { AsyncResource } from 'node:async_hooks';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  Body,
  Controller,
  Get,
  Inject,
  Injectable,
  Module,
  Param,
  Query,
  Scope,
  type ModuleMetadata,
} from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  CurrentLock,
  DistributedLockModule,
  InjectLockService,
  LockDefaults,
  LockKeyError,
  LockLostError,
  LockService,
  LockShutdownError,
  LockSignal,
  LockWaitTimeoutError,
  Locked,
  getLockServiceToken,
  memoryStore,
  type Lock,
  type DistributedLockModuleOptions,
  type DistributedLockOptionsFactory,
} from 'nestjs-distributed-lock';
import { TestLocks } from 'nestjs-distributed-lock/testing';
import { Observable, firstValueFrom, lastValueFrom, of, toArray } from 'rxjs';
import { until } from '#until';
import { startApp } from './stage.js';

/** Made where no lock is held: there a call does not share the lock of its caller. */
const outside = new AsyncResource('outside');

const opened: TestingModule[] = [];

async function start(metadata: ModuleMetadata): Promise<TestingModule> {
  const module = await compile(metadata);
  await module.init();
  opened.push(module);
  return module;
}

async function compile(metadata: ModuleMetadata): Promise<TestingModule> {
  const imports = metadata.imports ?? [DistributedLockModule.forRoot({ shutdownGraceMs: 500 })];
  return Test.createTestingModule({ ...metadata, imports }).compile();
}

afterEach(async () => {
  for (const module of opened.splice(0)) await module.close();
});

abstract class Base {
  @Locked('order:<id>')
  async place(id: string, lock?: Lock): Promise<string | undefined> {
    return lock?.key;
  }

  @Locked('order:<id>')
  async placed(id: string, @CurrentLock() lock?: Lock, @LockSignal() signal?: AbortSignal): Promise<unknown> {
    return { self: this.constructor.name, id, key: lock?.key, aborted: signal?.aborted };
  }
}

@Injectable()
class Orders extends Base {
  runs = 0;
  constructor(@Inject(LockService) readonly locks: LockService) {
    super();
  }

  @Locked(['order:<0.id>', 'line:<order.lines[].sku>'], { waitMs: 0 })
  async many(
    order: { id: string; lines: { sku: string }[] },
    @CurrentLock() lock?: Lock,
  ): Promise<readonly string[]> {
    return [...(lock?.keys ?? []), order.id];
  }

  @Locked('order:<id>')
  async outer(id: string): Promise<unknown> {
    return this.placed(id);
  }

  @Locked('job', { onBusy: 'skip' })
  async job(): Promise<string | undefined> {
    this.runs += 1;
    return 'ran';
  }

  @Locked('job', { onBusy: 'skip' })
  async jobThatFails(): Promise<void> {
    await this.locks.withLock('other', { waitMs: 0 }, () => undefined);
  }

  @Locked('job', {
    waitMs: 0,
    onBusy(this: Orders, busy, n: number) {
      return `${this.constructor.name} ${busy.key} ${n}`;
    },
  })
  async fallback(n: number): Promise<string> {
    return `ran ${n}`;
  }

  @Locked('job', { when: async (n: number) => n > 0 })
  async maybe(_n: number, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return lock?.key;
  }

  @Locked((id: string, n: number = 1) => `fn:${id}:${n}`)
  async byFunction(_id: string, _n?: number, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return lock?.key;
  }

  @Locked('lost', { leaseMs: 30 })
  async loses(): Promise<string> {
    await new Promise((resolve) => setTimeout(resolve, 80));
    return 'finished';
  }

  @Locked('stream', { stream: true, waitMs: 1_000 })
  stream(): Observable<string | undefined> {
    return new Observable((out) => {
      out.next(this.locks.current()?.key);
      const timer = setTimeout(() => out.complete(), 30);
      return () => clearTimeout(timer);
    });
  }

  @Locked('stream')
  noStream(): Observable<number> {
    return of(1);
  }
}

@Injectable({ scope: Scope.REQUEST })
class RequestOrders extends Base {}

@Injectable({ scope: Scope.TRANSIENT })
class TransientOrders extends Base {}

describe('@Locked on methods of providers', () => {
  let orders: Orders;
  beforeEach(async () => {
    orders = (await start({ providers: [Orders] })).get(Orders);
  });

  it.each([
    ['a singleton', (module: TestingModule) => module.get(Orders)],
    ['a request-scoped provider', (module: TestingModule) => module.resolve(RequestOrders)],
    ['a transient provider', (module: TestingModule) => module.resolve(TransientOrders)],
    ['what a factory makes', (module: TestingModule) => module.get<Base>('factory')],
  ])('locks calls of %s, inherited methods included', async (_what, get) => {
    const module = await start({
      providers: [
        Orders,
        RequestOrders,
        TransientOrders,
        { provide: 'factory', useFactory: () => new (class Made extends Base {})() },
      ],
    });
    const made = await get(module);
    const locks = module.get(LockService);
    const mine = await locks.acquire('order:1');
    const call = made.placed('1');
    await new Promise((resolve) => setTimeout(resolve, 20));
    await mine.release();
    expect(await call).toEqual({ self: made.constructor.name, id: '1', key: 'order:1', aborted: false });
    expect(await locks.inspect('order:1')).toBeNull();
  });

  it('an argument that the caller gives is not replaced, and one without decorator stays out', async () => {
    expect(await orders.place('1')).toBeUndefined();
    expect(await orders.placed('1', { key: 'given' } as Lock)).toMatchObject({ key: 'given' });
  });

  it('name and length of the method stay', () => {
    expect(Orders.prototype.placed.name).toBe('placed');
    expect(Orders.prototype.placed.length).toBe(3);
  });

  it('several keys are held together, with lists and properties', async () => {
    const order = { id: '7', lines: [{ sku: 'b' }, { sku: 'a' }] };
    expect(await orders.many(order)).toEqual(['order:7', 'line:b', 'line:a', '7']);
    const mine = await orders.locks.acquire('line:a');
    await expect(orders.many(order)).rejects.toBeInstanceOf(LockWaitTimeoutError);
    expect(await orders.locks.inspect('order:7')).toBeNull();
    await mine.release();
  });

  it('a nested call with the same key shares the lock', async () => {
    expect(await orders.outer('1')).toMatchObject({ key: 'order:1' });
  });

  it('a value that makes no key rejects the call', async () => {
    await expect(orders.placed('')).rejects.toBeInstanceOf(LockKeyError);
    await expect(orders.placed({} as string)).rejects.toThrow('the value of <id> at position 6 is an object');
  });

  it('a key function gets the arguments as they are', async () => {
    expect(await orders.byFunction('a')).toBe('fn:a:1');
  });

  it("onBusy: 'skip' gives undefined without running, and does not hide a busy lock inside the method", async () => {
    expect(await orders.job()).toBe('ran');
    const other = await orders.locks.acquire('other');
    await expect(orders.jobThatFails()).rejects.toBeInstanceOf(LockWaitTimeoutError);
    await other.release();
    const mine = await orders.locks.acquire('job');
    expect(await orders.job()).toBeUndefined();
    expect(await orders.fallback(3)).toBe('Orders job 3');
    await mine.release();
    expect(await orders.fallback(3)).toBe('ran 3');
    expect(orders.runs).toBe(1);
  });

  it('a call for which `when` says no runs without the lock', async () => {
    expect(await orders.maybe(0)).toBeUndefined();
    expect(await orders.maybe(1)).toBe('job');
  });

  it('permits and a weight of the decorator are those of the lock', async () => {
    @Injectable()
    class Reports {
      constructor(@Inject(LockService) private readonly locks: LockService) {}

      @Locked('report', { permits: 3, weight: 2 })
      async heavy(): Promise<boolean[]> {
        const isRoomFor = async (weight: number) => {
          const lock = await this.locks.tryAcquire('report', { permits: 3, weight });
          return (await lock?.release()) === 'released';
        };
        return outside.runInAsyncScope(async () => [await isRoomFor(1), await isRoomFor(2)]);
      }
    }
    expect(await (await start({ providers: [Reports] })).get(Reports).heavy()).toEqual([true, false]);
  });

  it('a call whose lock was lost rejects although the method succeeded', async () => {
    await expect(orders.loses()).rejects.toBeInstanceOf(LockLostError);
  });

  it('under stream: true each subscription acquires, and releases on its end', async () => {
    const stream = orders.stream();
    expect(await orders.locks.inspect('stream')).toBeNull();
    const both = await Promise.all([
      lastValueFrom(stream.pipe(toArray())),
      lastValueFrom(stream.pipe(toArray())),
    ]);
    expect(both).toEqual([['stream'], ['stream']]);
    expect(await orders.locks.inspect('stream')).toBeNull();
  });

  it('under stream: true unsubscribing releases, and leaves the queue', async () => {
    await firstValueFrom(orders.stream());
    expect(await orders.locks.inspect('stream')).toBeNull();
    const events: string[] = [];
    orders.locks.events$.subscribe(({ type }) => events.push(type));
    const mine = await orders.locks.acquire('stream');
    const waiting = orders.stream().subscribe();
    await new Promise((resolve) => setTimeout(resolve, 20));
    waiting.unsubscribe();
    await until(() => events.includes('abandoned'));
    await mine.release();
  });

  it('an Observable that would outlive its lock is refused', async () => {
    await expect(Promise.resolve(orders.noStream())).rejects.toThrow(
      'Orders.noStream returned an Observable, which would outlive its lock: use @Locked(…, { stream: true }), or await lastValueFrom(…).',
    );
  });
});

describe('several applications of one process', () => {
  it('that share a controller class use their own service each', async () => {
    @Controller()
    class Shared {
      @Get()
      @Locked('shared', { waitMs: 0 })
      async handle(): Promise<string> {
        return 'ok';
      }
    }
    const one = await startApp('express', { controllers: [Shared] });
    const two = await startApp('fastify', { controllers: [Shared] });
    const mine = await one.locks.acquire('shared');
    expect((await one.fetch('/')).status).toBe(423);
    expect((await two.fetch('/')).status).toBe(200);
    await mine.release();
    await Promise.all([one.app.close(), two.app.close()]);
  });
});

@Injectable()
class Settings implements DistributedLockOptionsFactory {
  createLockOptions(): DistributedLockModuleOptions {
    return { keyPrefix: 'from-class:', waitMs: 7 };
  }
}

@Module({ providers: [Settings, { provide: 'wait', useValue: 7 }], exports: [Settings, 'wait'] })
class SettingsModule {}

describe('registration', () => {
  it.each([
    ['forRoot', DistributedLockModule.forRoot({ waitMs: 7 })],
    [
      'forRootAsync with useFactory',
      DistributedLockModule.forRootAsync({
        imports: [SettingsModule],
        inject: ['wait'],
        useFactory: async (waitMs: number) => ({ waitMs, store: memoryStore() }),
      }),
    ],
    ['forRootAsync with useClass', DistributedLockModule.forRootAsync({ useClass: Settings })],
    [
      'forRootAsync with useExisting',
      DistributedLockModule.forRootAsync({ imports: [SettingsModule], useExisting: Settings }),
    ],
  ])('%s serves the whole application', async (_way, registration) => {
    @Module({ providers: [Orders] })
    class Feature {}
    const module = await start({ imports: [registration, Feature] });
    expect(module.get(LockService).options.waitMs).toBe(7);
    expect(await module.get(Orders, { strict: false }).placed('1')).toMatchObject({ key: 'order:1' });
    // By what is inside: an instanceDecorator puts a Proxy of its own around each of the two.
    expect(module.get<LockService>(getLockServiceToken()).events$).toBe(module.get(LockService).events$);
  });

  it('several registrations live beside each other, by name', async () => {
    @Injectable()
    class Audit {
      constructor(@InjectLockService('audit') readonly locks: LockService) {}
      @Locked('log', { name: 'audit', waitMs: 0 })
      async write(): Promise<string> {
        return 'written';
      }
    }
    @LockDefaults({ name: 'audit', waitMs: 0 })
    class AuditByDefault {
      @Locked('log')
      async write(): Promise<string> {
        return 'written';
      }
    }
    const registrations = () => [
      DistributedLockModule.forRoot(),
      DistributedLockModule.forRootAsync({ name: 'audit', useFactory: () => ({ waitMs: 7 }) }),
    ];
    // A second application, so that a service which was not injected could not be found by chance.
    await start({ imports: registrations() });
    const module = await start({ imports: registrations(), providers: [Audit, AuditByDefault] });
    const audit = module.get(Audit);
    expect(audit.locks).not.toBe(module.get(LockService));
    expect(audit.locks.options.waitMs).toBe(7);
    const mine = await module.get(LockService).acquire('log');
    expect(await audit.write()).toBe('written');
    expect(await module.get(AuditByDefault).write()).toBe('written');
    const theirs = await audit.locks.acquire('log');
    await expect(module.get(AuditByDefault).write()).rejects.toBeInstanceOf(LockWaitTimeoutError);
    await expect(audit.write()).rejects.toBeInstanceOf(LockWaitTimeoutError);
    await Promise.all([mine.release(), theirs.release()]);
  });

  it('isGlobal: false keeps the service to the modules that import it', async () => {
    @Injectable()
    class User {
      constructor(@Inject(LockService) readonly locks: LockService) {}
    }
    @Module({ imports: [DistributedLockModule.forRoot({ isGlobal: false })], providers: [User, Orders] })
    class Feature {}
    const module = await start({ imports: [Feature] });
    expect(await module.get(Orders, { strict: false }).placed('1')).toMatchObject({ key: 'order:1' });
    await expect(compile({ imports: [Feature], providers: [User] })).rejects.toThrow('LockService');
  });

  it('a test can put another service in its place, also under @Locked', async () => {
    await using locks = new TestLocks();
    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot()],
      providers: [Orders],
    })
      .overrideProvider(LockService)
      .useValue(locks)
      .compile();
    await module.init();
    await module.get(Orders).placed('1');
    expect(locks.acquired).toEqual(['order:1']);
    await module.close();
  });

  it('options are checked where they enter', async () => {
    await expect(compile({ imports: [DistributedLockModule.forRoot({ waitMs: -1 })] })).rejects.toThrow(
      'waitMs must be a number of ms, 0 or more (Infinity allowed); it is -1.',
    );
    await expect(
      compile({ imports: [DistributedLockModule.forRoot({ http: { busy: 200 } })] }),
    ).rejects.toThrow('http: busy must be a status from 400 to 599; it is 200.');
    expect(() => Locked('a:<')).toThrow('Key template "a:<" has an unclosed "<" at position 2.');
  });
});

describe('the boot stops', () => {
  const boot = async (metadata: ModuleMetadata): Promise<void> => {
    const module = await compile(metadata);
    try {
      await module.init();
    } finally {
      await module.close().catch(() => undefined);
    }
  };

  it('for a name that the handler does not read, with the names that exist', async () => {
    @Controller()
    class GoodsController {
      @Get(':id')
      @Locked('goods:<sku>')
      async purchase(@Param('id') _id: string, @Body('userId') _user: string): Promise<void> {}
    }
    await expect(boot({ controllers: [GoodsController] })).rejects.toThrow(
      '@Locked on GoodsController.purchase: unknown <sku> in "goods:<sku>" at position 6; the handler reads: id, userId.',
    );
  });

  it('for a name that two parameters of a handler have', async () => {
    @Controller()
    class Ambiguous {
      @Get(':id')
      @Locked('a:<id>')
      async handle(@Param('id') _a: string, @Query('id') _b: string): Promise<void> {}
    }
    await expect(boot({ controllers: [Ambiguous] })).rejects.toThrow('write <params.id> or <query.id>.');
  });

  it('for names under another decorator that has replaced the method', async () => {
    const replace: MethodDecorator = (_target, _name, descriptor: PropertyDescriptor) => {
      descriptor.value = new Proxy(descriptor.value as object, {});
    };
    class Hidden {
      @Locked('a:<id>')
      @replace
      async work(_id: string): Promise<void> {}
      @Locked('a:<0>')
      @replace
      async byPosition(_id: string): Promise<void> {}
    }
    await expect(boot({ providers: [Hidden] })).rejects.toThrow(
      'put @Locked nearest to the method, or use <0>.',
    );
  });

  it("for onBusy: 'skip' on an HTTP handler", async () => {
    @Controller()
    class Skips {
      @Get()
      @Locked('a', { onBusy: 'skip' })
      async handle(): Promise<void> {}
    }
    await expect(boot({ controllers: [Skips] })).rejects.toThrow(
      "onBusy 'skip' would answer 200 with nothing",
    );
  });

  it('for a key function of a handler whose arguments cannot be counted', async () => {
    @Controller()
    class Counts {
      @Get(':id')
      @Locked((id: string, n: number = 1) => `${id}${n}`)
      async handle(@Param('id') _id: string, _n?: number): Promise<void> {}
    }
    await expect(boot({ controllers: [Counts] })).rejects.toThrow(
      'the key function has a default or a rest parameter',
    );
  });
});

describe('the end of the application', () => {
  it('waits for holders, refuses those in the queue, and leaves no timer', async () => {
    const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
    const before = timers();
    const module = await start({ providers: [Orders] });
    const locks = module.get(LockService);
    const lock = await locks.acquire('a');
    const waiting = locks.acquire('a').catch((error: unknown) => error);
    const closing = module.close();
    expect(await waiting).toBeInstanceOf(LockShutdownError);
    lock.assertHeld();
    await lock.release();
    await closing;
    expect(timers()).toBe(before);
  });

  it('takes a lock away from a holder whose grace is over', async () => {
    const module = await start({ imports: [DistributedLockModule.forRoot({ shutdownGraceMs: 30 })] });
    const lock = await module.get(LockService).acquire('a');
    await module.close();
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('works for a module that was only compiled, used or not', async () => {
    const unused = await compile({ providers: [Orders] });
    await unused.close();
    const used = await compile({ providers: [Orders] });
    expect(await used.get(Orders).placed('1')).toMatchObject({ key: 'order:1' });
    await used.close();
    await expect(used.get(Orders).placed('1')).rejects.toBeInstanceOf(LockShutdownError);
  });
});
