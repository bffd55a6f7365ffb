import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { Cluster, Redis } from 'ioredis';
import {
  DistributedLockModule,
  LockConfigurationError,
  LockDefaults,
  Locked,
  LockService,
  memoryStore,
  systemClock,
  type DistributedLockModuleOptions,
  type LockedOptions,
} from 'nestjs-distributed-lock';
import { Fenced, fencedRedis, ProcessFences } from 'nestjs-distributed-lock/guard';
import { LockMetricsModule, measureLocks, traceLocks } from 'nestjs-distributed-lock/otel';
import { quorumStore } from 'nestjs-distributed-lock/quorum';
import { createClient, createClientPool, createCluster, createSentinel } from 'redis';
import { redisStore } from 'nestjs-distributed-lock/redis';

const SECRET = 'hunter2';
const URL_OF_SECRET = `redis://:${SECRET}@127.0.0.1:1`;

/** What it throws, or what its promise rejects with. */
async function refusalOf(make: () => unknown): Promise<Error> {
  try {
    await make();
  } catch (error) {
    return error as Error;
  }
  throw new Error('It was taken.');
}

const loosely = (value: unknown) => value as never;
const lazy = { lazyConnect: true };
const sentinel = (more: { keyPrefix?: string } = {}) =>
  createSentinel({ name: 'm', sentinelRootNodes: [{ host: 'h', port: 1 }], ...more });

/** As node-redis makes them. */
class RedisClient {
  readonly options = { url: URL_OF_SECRET };
  readonly isOpen = false;
  async connect(): Promise<void> {}
  async sendCommand(): Promise<void> {}
  duplicate(): RedisClient {
    return this;
  }
}

function lockedMethod(options: LockedOptions): object {
  class Goods {
    @Locked('k', options)
    async sell(): Promise<void> {}
  }
  return Goods;
}

function lockedClass(options: LockedOptions): object {
  @LockDefaults(options)
  class Goods {}
  return Goods;
}

describe('redisStore', () => {
  it.each([
    ['undefined', undefined, 'it was given undefined: is its environment variable set?'],
    ['null', null, 'it was given null'],
    ['an empty text', '', 'an empty string: is its environment variable set?'],
    ['a port', 6379, 'it was given a number'],
    ['a list', [URL_OF_SECRET], 'it was given a list'],
    [
      'a client of another library',
      new RedisClient(),
      'it was given a client of another library (an object of class RedisClient)',
    ],
    [
      'a URL of something else',
      `http://:${SECRET}@h`,
      'the scheme of the URL is http:, not redis: or rediss:',
    ],
    ['a broken URL', `redis://:${SECRET}/@127.0.0.1:1x`, 'the text it was given is no URL'],
    ['a URL without a host', 'redis:///0', 'no URL with a host'],
    [
      'a password cut by its ?',
      `redis://h?${SECRET}@h:1`,
      'A password in it must be written by encodeURIComponent',
    ],
    [
      'options of another library',
      { url: URL_OF_SECRET },
      'it was given an object with url. Write redisStore(url), or redisStore(createClient({ url })) for node-redis.',
    ],
    [
      'a cluster of node-redis without a node',
      createCluster({ rootNodes: [], defaults: { password: SECRET } }),
      'redisStore finds no rootNodes in the options of this client for a cluster',
    ],
    [
      'a cluster of a node-redis that keeps its options',
      { isOpen: false, getRandomNode: () => undefined, duplicate: () => undefined, options: URL_OF_SECRET },
      'redisStore finds no rootNodes in the options of this client for a cluster',
    ],
    [
      'a pool of node-redis',
      createClientPool({ url: URL_OF_SECRET }),
      'of node-redis it takes what createClient, createSentinel and createCluster make',
    ],
    [
      'Sentinels of a node-redis that keeps its options',
      { isOpen: false, getMasterNode: () => undefined, duplicate: () => undefined, options: URL_OF_SECRET },
      'redisStore cannot read the options of this client for Sentinels',
    ],
    ['a misspelt host', { hots: 'h' }, 'the options name no server'],
    ['options without a server', { password: SECRET }, 'the options name no server'],
    ['an empty host', { host: '', port: 1 }, 'the options name no server'],
    [
      'an option that would do nothing',
      { host: 'h', retryStrategy: () => 1 },
      'the option "retryStrategy" of ioredis',
    ],
    ['a parameter that would do nothing', `${URL_OF_SECRET}?lazyConnect=true`, 'the parameter "lazyConnect"'],
  ])('refuses %s, and says what it was given', async (_what, target, message) => {
    const error = await refusalOf(() => redisStore(loosely(target)));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain(message);
    expect(inspect(error)).not.toContain(SECRET);
  });

  it.each([
    ['a URL', URL_OF_SECRET],
    ['a URL with options', 'rediss://user:p%40ss@h:6380/2?family=6&enableReadyCheck=true'],
    ['a host', 'localhost'],
    ['a host and a port', '127.0.0.1:6380'],
    ['a port as text', '6380'],
    ['a socket', '/run/redis.sock?db=2'],
    ['options', { host: 'h', port: 1, tls: {}, username: 'u', password: SECRET, connectionName: 'locks' }],
    ['options of a shared connection', { host: 'h', maxRetriesPerRequest: null, lazyConnect: true }],
    ['Sentinels', { sentinels: [{ host: 'h', port: 1 }], name: 'm' }],
    ['an option of a later ioredis', { host: 'h', optionOfNextYear: true }],
    ['an option that is left out', { host: 'h', keyPrefix: undefined, url: undefined }],
    ['options of a client', new Redis({ host: 'h', ...lazy }).options],
    [
      'options of a client that connects at once',
      { ...new Redis({ host: 'h', ...lazy }).options, lazyConnect: false },
    ],
    ['a client', new Redis('redis://h', { ...lazy, retryStrategy: () => 5 })],
    ['a cluster', new Cluster([{ host: 'h' }], lazy)],
    ['a client behind a Proxy', new Proxy(new Redis(lazy), {})],
    ['a client of node-redis', createClient({ url: URL_OF_SECRET })],
    ['a client of node-redis behind a Proxy', new Proxy(createClient(), {})],
    ['Sentinels of node-redis', sentinel()],
    ['a cluster of node-redis', createCluster({ rootNodes: [{ url: URL_OF_SECRET }] })],
    ['a cluster of node-redis behind a Proxy', new Proxy(createCluster({ rootNodes: [{}] }), {})],
    ['Sentinels of node-redis behind a Proxy', new Proxy(sentinel(), {})],
  ])('takes %s', async (_what, target) => {
    expect(typeof redisStore(loosely(target)).create).toBe('function');
  });

  it.each([
    ['of one server', new Redis({ ...lazy, keyPrefix: 'app:' })],
    ['that is to be made', { host: 'h', keyPrefix: 'app:' }],
    ['of node-redis', createClient({ keyPrefix: 'app:' })],
    ['of node-redis for Sentinels', sentinel({ keyPrefix: 'app:' })],
    ['of node-redis for a cluster', createCluster({ rootNodes: [{}], keyPrefix: 'app:' })],
    ['of a cluster', new Cluster([{ host: 'h' }], { ...lazy, keyPrefix: 'app:' })],
    [
      'of the nodes of a cluster',
      new Cluster([{ host: 'h' }], { ...lazy, redisOptions: { keyPrefix: 'app:' } }),
    ],
  ])('refuses a client %s with a keyPrefix, unless the module has the same', async (_what, client) => {
    const create = (keyPrefix: string) =>
      redisStore(client).create({
        clock: systemClock,
        keyPrefix,
        watchdogTimeoutMs: 30_000,
      });
    const error = await refusalOf(() => create(''));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('a client with the keyPrefix "app:", which locks do not use');
    await create('app:').close();
  });
});

describe('a name that is no option', () => {
  const service = new LockService({ store: memoryStore() });
  const work = () => 'done';
  const boot = (options: object) =>
    Test.createTestingModule({ imports: [DistributedLockModule.forRoot(loosely(options))] }).compile();
  const bootAsync = (options: object) =>
    Test.createTestingModule({ imports: [DistributedLockModule.forRootAsync(loosely(options))] }).compile();

  it.each<readonly [message: string, make: () => unknown]>([
    [
      'redisStore has no option "commandTimeout"; did you mean commandTimeoutMs?',
      () => redisStore('h', loosely({ commandTimeout: 5 })),
    ],
    [
      'The options of redisStore must be an object; it was given a number.',
      () => redisStore('h', loosely(5)),
    ],
    [
      'memoryStore takes nothing; it was given a string.',
      () => (memoryStore as (url: string) => unknown)('redis://h'),
    ],
    [
      'quorumStore takes a list of stores such as [redisStore(a), redisStore(b), redisStore(c)]; it was given undefined.',
      () => quorumStore(loosely(undefined)),
    ],
    [
      'it was given a list with a string in it',
      () => quorumStore(loosely(['redis://a', 'redis://b', 'redis://c'])),
    ],
    [
      'quorumStore has no option "onnode"; did you mean onNode?',
      () => quorumStore([memoryStore(), memoryStore(), memoryStore()], loosely({ onnode: work })),
    ],
    [
      'onNode must be a function; it was given a string.',
      () => quorumStore([memoryStore(), memoryStore(), memoryStore()], { onNode: loosely('up') }),
    ],
    [
      'DistributedLockModule.forRoot has no option "keyprefix"; did you mean keyPrefix?',
      () => boot({ keyprefix: 'a' }),
    ],
    [
      'DistributedLockModule: name must be the name of a registration; it is a number.',
      () => boot({ name: 5 }),
    ],
    ['DistributedLockModule.forRootAsync has no option "store"', () => bootAsync({ store: memoryStore() })],
    [
      'The options of DistributedLockModule must be an object; it was given undefined.',
      () => bootAsync({ useFactory: () => undefined }),
    ],
    ['defaults has no option "waitms"; did you mean waitMs?', () => boot({ defaults: { waitms: 5 } })],
    ['http has no option "bussy"; did you mean busy?', () => boot({ http: { bussy: 409 } })],
    [
      'LockService has no option "shutdownGrace"; did you mean shutdownGraceMs?',
      () => new LockService(loosely({ store: memoryStore(), shutdownGrace: 5 })),
    ],
    [
      'withLock has no option "waitMS"; did you mean waitMs?',
      () => service.withLock('k', loosely({ waitMS: 0 }), work),
    ],
    [
      'The options of withLock must be an object; it was given a number.',
      () => service.withLock('k', loosely(5000), work),
    ],
    [
      "onLost must be 'throw' or 'ignore'; it is keep.",
      () => service.withLock('k', { onLost: loosely('keep') }, work),
    ],
    ['in place of the function it was given undefined', () => service.withLock('k', loosely({ waitMs: 0 }))],
    ['acquire has no option "onLost"', () => service.acquire('k', loosely({ onLost: 'ignore' }))],
    [
      'tryAcquire has no option "lease"; did you mean leaseMs?',
      () => service.tryAcquire('k', loosely({ lease: 5 })),
    ],
    ['fair must be true or false; it is a string.', () => service.acquire('k', { fair: loosely('yes') })],
    [
      'signal must be an AbortSignal, as controller.signal; it is an object of class AbortController.',
      () => service.acquire('k', { signal: loosely(new AbortController()) }),
    ],
    [
      'signal must be an AbortSignal, as controller.signal; it is an object of class IncomingMessage.',
      () => service.acquire('k', { signal: loosely(new IncomingMessage(new Socket())) }),
    ],
    [
      '@Locked on Goods.sell has no option "onbusy"; did you mean onBusy?',
      () => lockedMethod(loosely({ onbusy: 'skip' })),
    ],
    [
      '@Locked on Goods.sell: name must be the name of a registration; it is an empty string.',
      () => lockedMethod({ name: '' }),
    ],
    [
      "@LockDefaults on Goods: leaseMs must be a whole number of ms from 10 to 31622400000; it is '1.5 min': write 90000.",
      () => lockedClass({ leaseMs: loosely('1.5 min') }),
    ],
    ['(Infinity allowed); it is a string.', () => lockedMethod({ waitMs: loosely('10 parsecs') })],
    [
      '@LockDefaults on Goods has no option "waits"; did you mean waitMs?',
      () => lockedClass(loosely({ waits: 5 })),
    ],
    [
      'fencedRedis has no option "keep"; did you mean keepMs?',
      () => fencedRedis(new Redis(lazy), loosely({ keep: 5 })),
    ],
    [
      'fencedRedis takes a client of ioredis or node-redis, which stays yours; it was given a string.',
      () => fencedRedis(loosely('redis://h')),
    ],
    [
      '@Fenced takes a function of the request that gives its keys; it was given a string.',
      () => Fenced(loosely('goods:<id>')),
    ],
    [
      'ProcessFences takes how many keys it remembers, 1 or more; it was given 0.',
      () => new ProcessFences(0),
    ],
    [
      'measureLocks has no option "label"; there are: keyLabel, meterProvider.',
      () => measureLocks(service, loosely({ label: work })),
    ],
    [
      'traceLocks has no option "keylabel"; did you mean keyLabel?',
      () => traceLocks(service, loosely({ keylabel: work })),
    ],
    [
      'LockMetricsModule has no option "names"; did you mean name?',
      () => LockMetricsModule.forRoot(loosely({ names: 'a' })),
    ],
  ])('is refused: %s', async (message, make) => {
    const error = await refusalOf(make);
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain(message);
  });

  it('is no matter when it is undefined, as an option that is left out', async () => {
    expect(await service.withLock('k', loosely({ waitMS: undefined }), work)).toBe('done');
    const options = { logger: false, nothing: undefined } as DistributedLockModuleOptions;
    await (await boot(options)).close();
  });
});
