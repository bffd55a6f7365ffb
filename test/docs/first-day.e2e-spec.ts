import { afterEach, describe, expect, it } from '@jest/globals';
import { Controller, Get, Injectable, Param, type ModuleMetadata } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  CurrentLock,
  DistributedLockModule,
  InjectLockService,
  LockService,
  Locked,
  type LockedOptions,
} from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import request from 'supertest';

const loosely = (value: unknown) => value as never;
const locks = DistributedLockModule.forRoot({ logger: false });

@Injectable()
class Orders {
  @Locked('order:<id>')
  async pay(id: string): Promise<string> {
    return id;
  }
}

class Jobs {
  constructor(@InjectLockService('jobs') readonly locks: LockService) {}
}

@Injectable()
class Typo {
  @Locked('order:<sku>')
  async pay(_id: string): Promise<void> {}
}

@Injectable()
class OtherStore {
  @Locked('a', { name: 'jobs' })
  async run(): Promise<void> {}
}

@Injectable()
class NoLock {
  async run(@CurrentLock() _lock?: unknown): Promise<void> {}
}

@Controller()
class Routes {
  @Get(':id')
  @Locked('route:<id>')
  async get(@Param('id') id: string): Promise<string> {
    return id;
  }
}

function lockedMethod(options: LockedOptions): object {
  class Goods {
    @Locked('a', options)
    async sell(): Promise<void> {}
  }
  return Goods;
}

describe('a mistake of the first day', () => {
  let app: TestingModule | undefined;

  afterEach(async () => {
    await app?.close();
    app = undefined;
  });

  async function boot(metadata: ModuleMetadata): Promise<TestingModule> {
    app = await Test.createTestingModule(metadata).compile();
    return app.init();
  }
  const service = async () => (await boot({ imports: [locks] })).get(LockService);

  const MISTAKES: Readonly<Record<string, readonly [make: () => unknown, message: string]>> = {
    'no module, and a locked method is called': [
      async () => (await boot({ providers: [Orders] })).get(Orders).pay('1'),
      'Import DistributedLockModule.forRoot(…)',
    ],
    'new in a unit test': [() => new Orders().pay('1'), 'write new TestLocks().injectInto(…)'],
    'no module, and the service is injected': [
      () => boot({ providers: [{ provide: 'x', useFactory: () => 1, inject: [LockService] }] }),
      'argument LockService at index [0]',
    ],
    'the class of the module without forRoot': [
      () => boot({ imports: [DistributedLockModule] }),
      'write DistributedLockModule.forRoot(…)',
    ],
    'the service of a registration that is not there': [
      () => boot({ imports: [locks], providers: [Jobs] }),
      'argument Symbol(nestjs-distributed-lock/service/jobs) at index [0]',
    ],
    'a locked method of a registration that is not there': [
      () => boot({ imports: [locks], providers: [OtherStore] }),
      "Import DistributedLockModule.forRoot({ name: 'jobs', … }), or correct the option name.",
    ],
    'two registrations without names': [
      () => boot({ imports: [locks, DistributedLockModule.forRoot({ waitMs: 5 })], providers: [Orders] }),
      "give each a name of its own: forRoot({ name: 'jobs', … }).",
    ],
    'forRootAsync without a factory': [
      () => DistributedLockModule.forRootAsync({}),
      'DistributedLockModule.forRootAsync needs useFactory',
    ],
    'a wrong placeholder': [
      () => boot({ imports: [locks], providers: [Typo] }),
      '@Locked on Typo.pay: unknown <sku> in "order:<sku>" at position 6; the method\'s arguments are: _id.',
    ],
    'a placeholder of another tool': [() => Locked(loosely('order:${id}')), 'write "order:<id>"'],
    '@Locked() without a key': [() => Locked(loosely(undefined)), 'it was given undefined. Write @Locked('],
    '@Locked with the key as an option': [() => Locked(loosely({ key: 'a' })), 'it was given an object.'],
    '@Locked without parentheses': [
      () => Locked(loosely(Orders.prototype)),
      'it was given an object. Write @Locked(',
    ],
    '@Locked with a list that has a hole': [() => Locked(loosely(['a', undefined])), 'something else in it'],
    '@Locked with a time in place of options': [
      () => lockedMethod(loosely(5000)),
      'The options of @Locked on Goods.sell must be an object; it was given a number',
    ],
    'an option of another library': [
      () => lockedMethod(loosely({ ttl: 5 })),
      '@Locked on Goods.sell has no option "ttl"; did you mean leaseMs?',
    ],
    'a time with a unit': [
      () => lockedMethod({ waitMs: loosely('10s') }),
      "0 or more (Infinity allowed); it is '10s': write 10000.",
    ],
    'another option of another library': [
      () => DistributedLockModule.forRoot(loosely({ ttl: 5 })),
      'did you mean watchdogTimeoutMs?',
    ],
    'waitMs from the environment': [
      () => boot({ imports: [DistributedLockModule.forRoot({ waitMs: loosely('5000') })] }),
      'waitMs must be a number of ms, 0 or more (Infinity allowed); it is a string, which Number(…) converts.',
    ],
    'a URL as the store': [
      () => boot({ imports: [DistributedLockModule.forRoot({ store: loosely('redis://h') })] }),
      'it was given a string. Write redisStore(…)',
    ],
    'options of node-redis': [() => redisStore(loosely({ url: 'redis://h' })), 'Write redisStore(url), or'],
    'an empty key': [async () => (await service()).withLock('', () => 1), 'A key must be a non-empty string'],
    'a value that is missing': [
      async () => (await boot({ imports: [locks], providers: [Orders] })).get(Orders).pay(loosely(undefined)),
      'the value of <id> at position 6 is undefined',
    ],
    '@CurrentLock without @Locked': [
      () => boot({ imports: [locks], providers: [NoLock] }),
      'Put one on it, or take the parameter away.',
    ],
    'a store that cannot be reached': [
      async () => {
        const store = redisStore('redis://127.0.0.1:1', { commandTimeoutMs: 100 });
        const imports = [DistributedLockModule.forRoot({ store, waitMs: 0, logger: false })];
        await (await boot({ imports })).get(LockService).withLock('a', () => 1);
      },
      'Redis at 127.0.0.1:1/0 could not be reached: ',
    ],
    'work that takes longer than leaseMs': [
      async () => {
        const work = () => new Promise((resolve) => setTimeout(resolve, 200));
        await (await service()).withLock('a', { leaseMs: 20 }, work);
      },
      'its lease of 20 ms ran out (raise leaseMs, or leave it out, and the watchdog renews the lease).',
    ],
  };

  it.each(Object.keys(MISTAKES))('says what to do: %s', async (mistake) => {
    const [make, told] = MISTAKES[mistake]!;
    const error = await Promise.resolve()
      .then(make)
      .then(
        () => undefined,
        (reason: unknown) => reason as Error,
      );
    expect(error?.message).toContain(told);
  });

  it('says which route has no module, and what to import', async () => {
    const said: unknown[] = [];
    const log = (...texts: unknown[]) => said.push(...texts);
    const module = await Test.createTestingModule({ controllers: [Routes] }).compile();
    const server = module.createNestApplication({ logger: { log, warn: log, error: log } });
    try {
      await server.init();
      await request(server.getHttpServer()).get('/1').expect(500);
    } finally {
      await server.close();
    }
    const message = said.map((it) => (it instanceof Error ? it.message : String(it))).join('\n');
    expect(message).toContain(
      '@Locked on Routes.get: there is no DistributedLockModule without a name in this application. Import DistributedLockModule.forRoot(…) in its root module, or choose another one by the option name.',
    );
  });
});
