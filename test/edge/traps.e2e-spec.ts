import { AsyncLocalStorage } from 'node:async_hooks';
import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  All,
  Catch,
  Controller,
  Get,
  HttpException,
  Inject,
  Injectable,
  Module,
  NotFoundException,
  Param,
  Res,
  StreamableFile,
  UseInterceptors,
  type ArgumentsHost,
  type CallHandler,
  type ExceptionFilter,
  type ExecutionContext,
  type NestInterceptor,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import { HttpAdapterHost, LazyModuleLoader, ModuleRef } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  CurrentLock,
  DistributedLockModule,
  LockLostError,
  LockService,
  LockSignal,
  LockWaitTimeoutError,
  Locked,
  lockKey,
  memoryStore,
  type Lock,
  type LockStoreFactory,
} from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { EMPTY, of, type Observable } from 'rxjs';
import { Stage, startApp, type StartedApp } from '../integration/stage.js';
import { until } from '../support/until.js';
import { once, record } from './support.js';

const METHOD = Symbol('method');
const WATCHDOG_MS = 200;

/** What each request brings with it, as packages for request contexts keep it. */
const requestContext = new AsyncLocalStorage<string>();

/** Renewals that the watchdog has asked for. */
let renewals = 0;

const countingStore: LockStoreFactory = {
  create(context) {
    const store = memoryStore().create(context);
    return new Proxy(store, {
      get(target, name) {
        if (name === 'renew') renewals += 1;
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
  },
};

@Injectable()
class Shop implements OnModuleInit, OnModuleDestroy {
  inside = 0;
  atMost = 0;
  keyAtInit: string | undefined;
  keyAtEnd: string | undefined;

  constructor(
    @Inject(Stage) private readonly stage: Stage,
    @Inject(LockService) private readonly locks: LockService,
  ) {}

  async onModuleInit(): Promise<void> {
    this.keyAtInit = await this.held('init');
  }

  async onModuleDestroy(): Promise<void> {
    this.keyAtEnd = await this.held('end');
  }

  @Locked('held:<id>')
  async held(id: string, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return id && lock?.key;
  }

  @Locked('alone')
  async alone(): Promise<void> {
    this.inside += 1;
    this.atMost = Math.max(this.atMost, this.inside);
    await new Promise((resolve) => setImmediate(resolve));
    this.inside -= 1;
  }

  @Locked('stage:<id>', { waitMs: 100 })
  async staged(id: string): Promise<string> {
    await this.stage.reach(id);
    return id;
  }

  @Locked('outer')
  async nestedFailure(): Promise<never> {
    return this.failure();
  }

  @Locked('inner')
  async failure(): Promise<never> {
    throw new NotFoundException('no such item');
  }

  @Locked('outer')
  async nestedBusy(): Promise<unknown> {
    return this.busy();
  }

  @Locked('busy', { waitMs: 0 })
  async busy(): Promise<void> {}

  @Locked('lost:<0>', { leaseMs: 50 })
  async failsAfterLoss(_id: string, @LockSignal() signal?: AbortSignal): Promise<never> {
    await until(() => signal?.aborted === true);
    throw new NotFoundException('my own');
  }

  @Locked(['pair:<0>', 'pair:<1>'])
  async pair(_one: string, _two: string): Promise<string | undefined> {
    await new Promise((resolve) => setImmediate(resolve));
    return this.locks.current()?.key;
  }

  @Locked('bill.create')
  async billCreate(): Promise<string | undefined> {
    return this.locks.current()?.key;
  }

  @Locked('bill.cancel', { waitMs: 0 })
  async billCancel(): Promise<string | undefined> {
    return this.locks.current()?.key;
  }

  @Locked('deep:<_order.lines.0.item.sku>')
  async deep(_order: unknown): Promise<string | undefined> {
    return this.locks.current()?.key;
  }

  @Locked('sync')
  syncThrow(): Promise<never> {
    throw new NotFoundException('at once');
  }

  @Locked('symbol')
  async [METHOD](): Promise<string | undefined> {
    return this.locks.current()?.key;
  }

  @Locked('static:<id>')
  static async shared(id: string, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return id && lock?.key;
  }

  @Locked('branches')
  async branches(): Promise<readonly (string | undefined)[]> {
    return Promise.all([this.branch(1), this.branch(2)]);
  }

  @Locked('branches')
  async branch(n: number): Promise<string | undefined> {
    await new Promise((resolve) => setImmediate(resolve));
    return `${n} ${this.locks.current()?.key}`;
  }

  @Locked('context')
  async context(id: string): Promise<string> {
    if (id === 'first') await this.stage.reach('context');
    return `${id} in ${requestContext.getStore()}`;
  }
}

@Injectable()
class Cached implements NestInterceptor {
  intercept(_context: ExecutionContext, _next: CallHandler): Observable<unknown> {
    return of('from the cache');
  }
}

@Controller()
class Handlers {
  constructor(
    @Inject(Shop) private readonly shop: Shop,
    @Inject(Stage) private readonly stage: Stage,
    @Inject(LockService) private readonly locks: LockService,
  ) {}

  @Get('nested-failure')
  @Locked('handler')
  async nestedFailure(): Promise<never> {
    return this.shop.nestedFailure();
  }

  @Get('empty')
  @Locked('empty')
  empty(): Observable<never> {
    return EMPTY;
  }

  @Get('empty/unlocked')
  emptyUnlocked(): Observable<never> {
    return EMPTY;
  }

  @Get('plain-value')
  @(Locked('plain') as MethodDecorator)
  plainValue(): string {
    return `plain ${this.locks.current()?.key}`;
  }

  @Get('own-response')
  @Locked('own')
  async ownResponse(@Res() response: { send(text: string): void }): Promise<void> {
    response.send(`sent ${this.locks.current()?.key}`);
    await this.stage.reach('sent');
  }

  @Get('file')
  @Locked('file')
  async file(): Promise<StreamableFile> {
    return new StreamableFile(Buffer.alloc(300_000, 'x'));
  }

  @Get('cached')
  @Locked('cached')
  @UseInterceptors(Cached)
  async cached(): Promise<void> {
    this.stage.note('ran');
  }

  @All(['many', 'many/:id'])
  @Locked('many:<params.id|trim>')
  async many(@Param('id') _id: string): Promise<string | undefined> {
    return this.locks.current()?.key;
  }

  @Get('busy')
  @Locked('busy', { waitMs: 0 })
  async busy(): Promise<void> {}
}

describe('known traps of locks in Nest', () => {
  let started: StartedApp;
  let shop: Shop;
  let locks: LockService;
  let events: string[];

  beforeAll(async () => {
    started = await startApp('express', {
      imports: [
        DistributedLockModule.forRoot({
          store: countingStore,
          watchdogTimeoutMs: WATCHDOG_MS,
          shutdownGraceMs: 2_000,
        }),
      ],
      controllers: [Handlers],
      providers: [Shop],
    });
    locks = started.locks;
    shop = started.app.get(Shop);
  });
  beforeEach(() => {
    events = record(locks);
    started.stage.log.length = 0;
  });
  afterAll(() => started.app.close());

  const isFree = async (key: string): Promise<boolean> => (await locks.inspect(key)) === null;

  it('an error of the method keeps its class and status through two locked methods and a locked handler', async () => {
    await expect(shop.nestedFailure()).rejects.toBeInstanceOf(NotFoundException);
    const answer = await started.fetch('/nested-failure');
    expect(answer.status).toBe(404);
    expect(await answer.json()).toMatchObject({ message: 'no such item' });
  });

  it('a method that runs for several leases is not entered by a second caller', async () => {
    const first = shop.staged('long');
    await until(() => started.stage.isAt('long'));
    const before = renewals;
    await until(() => renewals > before + 6);
    await expect(shop.staged('long')).rejects.toBeInstanceOf(LockWaitTimeoutError);
    started.stage.go('long');
    expect(await first).toBe('long');
  });

  it('a waiter that gives up leaves the lock with its holder', async () => {
    const mine = await locks.acquire('stage:mine');
    await expect(shop.staged('mine')).rejects.toBeInstanceOf(LockWaitTimeoutError);
    expect(await isFree('stage:mine')).toBe(false);
    expect(await mine.release()).toBe('released');
  });

  it("the method's own error is not replaced by the loss of its lock", async () => {
    await expect(shop.failsAfterLoss('1')).rejects.toThrow('my own');
  });

  it('an error of a nested lock says once what happened', async () => {
    const mine = await locks.acquire('busy');
    const error = await shop.nestedBusy().catch((thrown: Error) => thrown);
    expect((error as Error).message.match(/is not free/g)).toHaveLength(1);
    await mine.release();
  });

  it('keys with dots are not cut: two of them are two locks', async () => {
    const mine = await locks.acquire('bill.create');
    expect(await shop.billCancel()).toBe('bill.cancel');
    await mine.release();
    expect(await shop.billCreate()).toBe('bill.create');
  });

  it('a deep property makes the key, and a missing one makes none', async () => {
    expect(await shop.deep({ lines: [{ item: { sku: 'x' } }] })).toBe('deep:x');
    await expect(shop.deep({ lines: [] })).rejects.toMatchObject({ code: 'LOCK_KEY' });
    await expect(shop.deep({ lines: [{ item: { sku: {} } }] })).rejects.toMatchObject({ code: 'LOCK_KEY' });
  });

  it('a method is locked while the application boots', () => {
    expect(shop.keyAtInit).toBe('held:init');
  });

  it('waitMs: 0 asks once although the default is to wait', async () => {
    const mine = await locks.acquire('zero');
    const asked = performance.now();
    await expect(locks.acquire('zero', { waitMs: 0 })).rejects.toThrow('Give waitMs to wait for it.');
    expect(performance.now() - asked).toBeLessThan(locks.options.waitMs / 2);
    await mine.release();
  });

  it('a wait is as long as was asked for', async () => {
    const mine = await locks.acquire('wait');
    const asked = performance.now();
    await expect(locks.acquire('wait', { waitMs: 150 })).rejects.toBeInstanceOf(LockWaitTimeoutError);
    expect(performance.now() - asked).toBeGreaterThanOrEqual(149);
    await mine.release();
  });

  it('a lock that was waited for has its whole lease before it', async () => {
    const mine = await locks.acquire('late');
    const theirs = locks.acquire('late', { leaseMs: 60_000 });
    await new Promise((resolve) => setTimeout(resolve, WATCHDOG_MS));
    await mine.release();
    const lock = await theirs;
    expect(lock.validForMs).toBeGreaterThan(45_000);
    expect(lock.signal.aborted).toBe(false);
    await lock.release();
  });

  it('a short lease is renewed a few times, not in a storm', async () => {
    const lock = await locks.acquire('storm');
    const before = renewals;
    const from = performance.now();
    await new Promise((resolve) => setTimeout(resolve, 5 * WATCHDOG_MS));
    const perLease = ((renewals - before) * WATCHDOG_MS) / (performance.now() - from);
    expect(perLease).toBeGreaterThan(1);
    expect(perLease).toBeLessThan(5);
    await lock.release();
  });

  it('the successor of an expired holder can release, and the expired holder cannot', async () => {
    const expired = await locks.acquire('expired', { leaseMs: 30 });
    const successor = await locks.acquire('expired');
    expect(await expired.release()).toBe('lost');
    successor.assertHeld();
    expect(await successor.release()).toBe('released');
  });

  it('releasing what was lost ends at once, and a loss that is ignored keeps the result', async () => {
    const lock = await locks.acquire('taken');
    await locks.forceRelease('taken');
    expect(await lock.release()).not.toBe('released');
    const work = async (): Promise<string> => {
      await locks.forceRelease('taken');
      return 'done';
    };
    expect(await locks.withLock('taken', { onLost: 'ignore' }, work)).toBe('done');
    await until(() => isFree('taken'));
  });

  it('fifty concurrent calls of one object are inside one at a time', async () => {
    await Promise.all(Array.from({ length: 50 }, () => shop.alone()));
    expect(shop.atMost).toBe(1);
  });

  it('callers of the same keys in opposite orders do not block each other', async () => {
    const calls = Array.from({ length: 20 }, (_, i) => (i % 2 ? shop.pair('a', 'b') : shop.pair('b', 'a')));
    const keys = await Promise.all(calls);
    expect(keys).toHaveLength(20);
    expect([await isFree('pair:a'), await isFree('pair:b')]).toEqual([true, true]);
  });

  it('one thousand keys leave nothing behind', async () => {
    await Promise.all(Array.from({ length: 1_000 }, (_, i) => shop.held(`k${i}`)));
    expect(events.filter((event) => event.startsWith('released'))).toHaveLength(1_000);
    const left = await Promise.all(Array.from({ length: 1_000 }, (_, i) => locks.inspect(`held:k${i}`)));
    expect(left.filter((it) => it !== null)).toEqual([]);
  });

  it('a handler without any value answers as it does without a lock, and gives the lock back', async () => {
    const { status } = await started.fetch('/empty/unlocked');
    expect((await started.fetch('/empty')).status).toBe(status);
    await until(() => isFree('empty'));
  });

  it('a handler that returns no promise is locked', async () => {
    expect(await (await started.fetch('/plain-value')).text()).toBe('plain plain');
    await until(() => isFree('plain'));
  });

  it('a handler that writes its response itself keeps the lock until it has ended', async () => {
    expect(await (await started.fetch('/own-response')).text()).toBe('sent own');
    expect(await isFree('own')).toBe(false);
    started.stage.go('sent');
    await until(() => isFree('own'));
  });

  it('a file is sent in full', async () => {
    expect((await (await started.fetch('/file')).text()).length).toBe(300_000);
    await until(() => isFree('file'));
  });

  it('a cache inside the lock that answers by itself gives the lock back', async () => {
    expect(await (await started.fetch('/cached')).text()).toBe('from the cache');
    await until(() => events.length > 1);
    expect([events, started.stage.log]).toEqual([once('cached'), []]);
  });

  it('each of several routes of a handler makes its key, and one without the parameter is refused', async () => {
    expect(await (await started.fetch('/many/7', { method: 'PUT' })).text()).toBe('many:7');
    expect((await started.fetch('/many')).status).toBe(400);
  });

  it('a method that throws at once rejects, and gives the lock back', async () => {
    await expect(shop.syncThrow()).rejects.toThrow('at once');
    expect(await isFree('sync')).toBe(true);
  });

  it('methods with a symbol for a name, static ones, and those taken off their object are locked', async () => {
    expect(await shop[METHOD]()).toBe('symbol');
    expect(await Shop.shared('1')).toBe('static:1');
    const held = Reflect.get(shop, 'held') as (id: string) => Promise<string | undefined>;
    expect(await held('2')).toBe('held:2');
    expect(await held.call(shop, '3')).toBe('held:3');
  });

  it('a spy that a test puts on the method does not take its lock away', async () => {
    const spy = jest.spyOn(shop, 'held');
    expect(await shop.held('spied')).toBe('held:spied');
    expect(spy).toHaveBeenCalledWith('spied');
    spy.mockRestore();
  });

  it('branches inside one lock share it and do not wait for each other', async () => {
    expect(await shop.branches()).toEqual(['1 branches', '2 branches']);
    expect(await isFree('branches')).toBe(true);
  });

  it('a caller that gets the lock from another request goes on in its own context', async () => {
    const first = requestContext.run('one', () => shop.context('first'));
    await until(() => started.stage.isAt('context'));
    const second = requestContext.run('two', () => shop.context('second'));
    started.stage.go('context');
    expect(await Promise.all([first, second])).toEqual(['first in one', 'second in two']);
  });

  it('objects that Nest builds later are locked: by ModuleRef.create and in lazy modules', async () => {
    @Injectable()
    class Late {
      @Locked('late:<id>')
      async work(id: string, @CurrentLock() lock?: Lock): Promise<string | undefined> {
        return id && lock?.key;
      }
    }
    @Module({ providers: [Late] })
    class LateModule {}
    const created = await started.app.get(ModuleRef).create(Late);
    expect(await created.work('1')).toBe('late:1');
    const module = await started.app.get(LazyModuleLoader).load(() => LateModule);
    expect(await module.get(Late).work('2')).toBe('late:2');
  });

  it('what is no method is refused when the class is loaded', () => {
    const decorate = Locked('a') as MethodDecorator;
    class Target {
      get value(): number {
        return 1;
      }
    }
    const descriptor = Object.getOwnPropertyDescriptor(Target.prototype, 'value');
    expect(() => decorate(Target.prototype, 'value', descriptor as PropertyDescriptor)).toThrow(
      '@Locked on Target.value: this is not a method.',
    );
  });

  it("the application's own filter for everything sees a busy lock as an HttpException", async () => {
    const seen: unknown[] = [];
    @Catch()
    class Everything implements ExceptionFilter {
      constructor(private readonly host: HttpAdapterHost) {}
      catch(error: unknown, host: ArgumentsHost): void {
        seen.push(error);
        const status = error instanceof HttpException ? error.getStatus() : 500;
        this.host.httpAdapter.reply(host.switchToHttp().getResponse(), { own: status }, status);
      }
    }
    const other = await startApp('express', { controllers: [Handlers], providers: [Shop] }, (app) =>
      app.useGlobalFilters(new Everything(app.get(HttpAdapterHost))),
    );
    const mine = await other.locks.acquire('busy');
    const answer = await other.fetch('/busy');
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([423, '1']);
    expect(await answer.json()).toEqual({ own: 423 });
    expect(seen).toMatchObject([{ cause: { code: 'LOCK_WAIT_TIMEOUT' } }]);
    await mine.release();
    await other.app.close();
  });

  it('a method is locked while the application ends', async () => {
    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot()],
      providers: [Shop, Stage],
    }).compile();
    await module.init();
    const ending = module.get(Shop);
    await module.close();
    expect(ending.keyAtEnd).toBe('held:end');
  });
});

describe('known traps of locks over Redis', () => {
  @Injectable()
  class Till {
    @Locked('till:<0>', { waitMs: 200 })
    async open(_name: string, @CurrentLock() lock?: Lock): Promise<string | undefined> {
      return lock?.key;
    }
  }

  const start = async (url: string) => {
    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot({ store: redisStore(url), shutdownGraceMs: 500 })],
      providers: [Till],
    }).compile();
    return module.init();
  };

  it('boots, answers and closes while Redis is down', async () => {
    const module = await start('redis://127.0.0.1:1');
    await expect(module.get(Till).open('a')).rejects.toBeInstanceOf(Error);
    await module.close();
  });

  it.each(['"quoted"', "it's", 'a\nb', '{slot}', '锁🔒', ' ', '%3A', '__proto__', '\0'])(
    'a value %j is handed over between two processes and changes nobody else',
    async (name) => {
      const url = String(process.env['REDIS_URL']);
      const [one, two] = [await start(url), await start(url)];
      const mine = await one.get(LockService).acquire(lockKey`till:${name}`);
      const theirs = two.get(LockService).acquire(lockKey`till:${name}`);
      await new Promise((resolve) => setTimeout(resolve, 30));
      await mine.release();
      await (await theirs).release();
      expect(await two.get(Till).open(name)).toBe(mine.key);
      await Promise.all([one.close(), two.close()]);
    },
  );

  it('a renewed lock of another process is not shortened by who asks with a short lease', async () => {
    const url = String(process.env['REDIS_URL']);
    const [one, two] = [await start(url), await start(url)];
    const key = lockKey`short:${process.pid}`;
    const mine = await one.get(LockService).acquire(key);
    await expect(two.get(LockService).acquire(key, { waitMs: 150, leaseMs: 50 })).rejects.not.toBeInstanceOf(
      LockLostError,
    );
    mine.assertHeld();
    expect(await mine.release()).toBe('released');
    await Promise.all([one.close(), two.close()]);
  });
});
