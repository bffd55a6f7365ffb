import { afterEach, describe, expect, it, jest } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  Param,
  type INestApplication,
  type InjectionToken,
} from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { ModuleMocker } from 'jest-mock';
import {
  DistributedLockModule,
  LockService,
  Locked,
  getLockServiceToken,
  type Lock,
} from 'nestjs-distributed-lock';
import { LeaderModule, OnlyLeader } from 'nestjs-distributed-lock/leader';
import { TestLocks } from 'nestjs-distributed-lock/testing';
import { lastValueFrom, of, type Observable } from 'rxjs';
import request from 'supertest';

const ran: string[] = [];

@Injectable()
class Orders {
  @Locked('order:<id>')
  async pay(id: string): Promise<string> {
    ran.push(id);
    return `paid ${id}`;
  }

  @Locked('order:<id>')
  async *lines(id: string): AsyncGenerator<string> {
    ran.push(id);
    yield id;
  }

  @Locked('order:<id>', { stream: true })
  watch(id: string): Observable<string> {
    ran.push(id);
    return of(id);
  }

  @Locked('order:<id>', { onBusy: 'skip' })
  async skip(id: string): Promise<string | undefined> {
    ran.push(id);
    return id;
  }
}

@Controller()
class Shop {
  @Get(':id')
  @Locked('order:<id>')
  async pay(@Param('id') id: string): Promise<string> {
    ran.push(id);
    return `paid ${id}`;
  }
}

@Injectable()
class Reports {
  @OnlyLeader('poller')
  async nightly(): Promise<void> {
    ran.push('nightly');
  }
}

const CALLS: Readonly<Record<string, (orders: Orders) => Promise<unknown>>> = {
  'a method': (orders) => orders.pay('7'),
  'an async generator': (orders) => orders.lines('7').next(),
  'a stream': (orders) => lastValueFrom(orders.watch('7')),
  'a method that may be skipped': (orders) => orders.skip('7'),
};

/** As createMock of @golevelup/ts-jest and mock of jest-mock-extended make them: a function under every name. */
function deepMock(): object {
  const made = new Map<string | symbol, unknown>([['then', undefined]]);
  return new Proxy(() => undefined, {
    get: (_target, name) => {
      if (!made.has(name))
        made.set(
          name,
          jest.fn(() => deepMock()),
        );
      return made.get(name);
    },
    has: () => true,
  });
}

const automock = new ModuleMocker(globalThis);
const Automock = automock.generateFromMetadata(
  automock.getMetadata(LockService)!,
) as unknown as new () => object;

const MOCKS: Readonly<Record<string, () => object>> = {
  'an automock of Jest': () => new Automock(),
  'a mock that answers every name': deepMock,
  'a stub of the class, as of sinon': () =>
    Object.assign(Object.create(LockService.prototype) as object, { withLock: async () => undefined }),
  'an object': () => ({}),
  'an object that runs the work without a lock': () => ({
    withLock: (_key: string, _options: object, work: (lock?: Lock) => unknown) => work(),
    acquire: async () => ({ release: async () => 'released' }),
  }),
};

describe('a mock in the place of the locks', () => {
  let app: INestApplication | undefined;
  afterEach(async () => {
    await app?.close();
    app = undefined;
    ran.length = 0;
  });

  const remedy =
    'Give the test locks in memory: const locks = new TestLocks(), from nestjs-distributed-lock/testing, and { provide: getLockServiceToken(), useValue: locks }, or locks.injectInto(…) around the object.';

  describe.each(Object.entries(MOCKS))('that is %s', (_what, mock) => {
    it.each(Object.entries(CALLS))(
      'by useMocker neither runs nor skips %s: the error leads to TestLocks',
      async (_method, call) => {
        const builder = Test.createTestingModule({ providers: [Orders] }).useMocker(() => mock());
        const orders = (await builder.compile()).get(Orders);
        await expect(call(orders)).rejects.toThrow(`: the LockService here is a mock. ${remedy}`);
        expect(ran).toEqual([]);
      },
    );

    it('by overrideProvider runs no handler and no method of a provider', async () => {
      const imports = [DistributedLockModule.forRoot()];
      const module = await Test.createTestingModule({ imports, providers: [Orders], controllers: [Shop] })
        .overrideProvider(LockService)
        .useValue(mock())
        .compile();
      const logged: unknown[] = [];
      const log = (message: unknown): void => void logged.push(String(message));
      app = module.createNestApplication({ logger: { log, warn: log, error: log } });
      await app.init();
      await expect(app.get(Orders).pay('7')).rejects.toThrow(
        '@Locked on Orders.pay: the LockService here is a mock',
      );
      await request(app.getHttpServer()).get('/7').expect(500);
      expect(logged.join('\n')).toContain(`@Locked on Shop.pay: the LockService here is a mock. ${remedy}`);
      expect(ran).toEqual([]);
    });

    it('stops the boot of what finds the locks by itself', async () => {
      const imports = [DistributedLockModule.forRoot(), LeaderModule.forFeature('poller')];
      const module = await Test.createTestingModule({ imports })
        .overrideProvider(LockService)
        .useValue(mock())
        .compile();
      await expect(module.init()).rejects.toThrow(
        "LeaderModule.forFeature('poller'): the LockService here is a mock",
      );
    });

    it('gives way to TestLocks.injectInto', async () => {
      const builder = Test.createTestingModule({ providers: [Orders] }).useMocker(() => mock());
      const orders = (await builder.compile()).get(Orders);
      await using locks = new TestLocks();
      expect(await locks.injectInto(orders).pay('7')).toBe('paid 7');
      expect(locks.acquired).toEqual(['order:7']);
    });

    it('in the place of the leaders runs no method of theirs', async () => {
      const builder = Test.createTestingModule({ providers: [Reports] }).useMocker(() => mock());
      const reports = (await builder.compile()).get(Reports);
      await expect(reports.nightly()).rejects.toThrow(
        '@OnlyLeader on Reports.nightly: a mock is injected in the place of the leaders, so the method did not run. In a test import DistributedLockModule.forRoot()',
      );
      expect(ran).toEqual([]);
    });
  });

  it('of one method of real locks neither skips a method nor lets a handler run without the lock', async () => {
    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot()],
      providers: [Orders],
      controllers: [Shop],
    }).compile();
    app = module.createNestApplication({ logger: false });
    await app.init();
    const locks = app.get(LockService);
    jest.spyOn(locks, 'withLock').mockResolvedValue(undefined);
    await expect(app.get(Orders).pay('7')).rejects.toThrow(
      `@Locked on Orders.pay: the LockService here did not run the method. ${remedy}`,
    );
    for (const given of [undefined, { release: async () => 'released' }]) {
      jest.spyOn(locks, 'acquire').mockResolvedValue(given as unknown as Lock);
      await request(app.getHttpServer()).get('/7').expect(500);
      await expect(lastValueFrom(app.get(Orders).watch('7'))).rejects.toThrow(
        'the LockService here gave no lock',
      );
    }
    expect(ran).toEqual([]);
  });

  it('is not taken for one: locks behind a Proxy, TestLocks by useMocker and by overrideProvider', async () => {
    await using locks = new TestLocks();
    const mocker = (token?: InjectionToken): object => (token === getLockServiceToken() ? locks : {});
    const mocked = await Test.createTestingModule({ providers: [Orders] })
      .useMocker(mocker)
      .compile();
    expect(await mocked.get(Orders).pay('1')).toBe('paid 1');

    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot()],
      providers: [Orders],
      controllers: [Shop],
    })
      .overrideProvider(LockService)
      .useValue(new Proxy(locks, {}))
      .compile();
    app = module.createNestApplication({ logger: false });
    await app.init();
    await request(app.getHttpServer()).get('/2').expect(200, 'paid 2');
    expect(await app.get(Orders).pay('3')).toBe('paid 3');
    expect(locks.acquired).toEqual(['order:1', 'order:2', 'order:3']);
  });

  it('answers a busy handler with the default status where TestLocks stand alone, without a module', async () => {
    await using locks = new TestLocks({ waitMs: 0 });
    const module = await Test.createTestingModule({
      providers: [{ provide: getLockServiceToken(), useValue: locks }],
      controllers: [Shop],
    }).compile();
    app = module.createNestApplication({ logger: false });
    await app.init();
    const held = await locks.acquire('order:1');
    await request(app.getHttpServer()).get('/1').expect(423);
    await held.release();
    await request(app.getHttpServer()).get('/1').expect(200, 'paid 1');
  });
});
