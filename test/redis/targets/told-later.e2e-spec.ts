import { describe, expect, it } from '@jest/globals';
import { createRequire } from 'node:module';
import { Redis } from 'ioredis';
import { LockConfigurationError } from 'nestjs-distributed-lock';
import { redisStore, type RedisTarget } from 'nestjs-distributed-lock/redis';
import { LIBRARIES, type Library } from '../../support/redis-library.js';
import { ownRedis } from '../../support/own-redis.js';
import { failureOf, openServiceOn } from '../../support/lock-services.js';
import { PATIENT } from '../../support/patient.js';
import { until } from '#until';

const { createClient } = createRequire(import.meta.url)('redis') as typeof import('redis');

/** A client of the application, connected, and how to tell it another database, as its users do. */
interface Told {
  readonly target: RedisTarget;
  select(database: number): Promise<unknown>;
  close(): unknown;
}

async function connected(library: Library, url: string): Promise<Told> {
  if (library === 'ioredis') {
    const client = new Redis(url);
    await client.ping();
    // On a new connection ioredis repeats the SELECT, and nobody handles its error. Wait for the reply, because a client that is closed
    // before it would reject that promise.
    const close = () => client.ping().finally(() => client.disconnect());
    return { target: client, select: (db) => client.select(db), close };
  }
  const client = createClient({ url });
  client.on('error', () => undefined);
  await client.connect();
  return { target: client, select: (db) => client.select(db), close: () => client.destroy() };
}

describe.each(LIBRARIES)('a client of %s that was told later', (library) => {
  const redis = ownRedis('told', { library });
  const options = (db: number): RedisTarget => ({ host: '127.0.0.1', port: redis.server.port, db });
  const open = (target: RedisTarget) => openServiceOn(redisStore(target, PATIENT));

  const withClient = async (work: (told: Told) => Promise<void>, url = redis.url): Promise<void> => {
    const told = await connected(library, url);
    await work(told).finally(() => told.close());
  };

  it.each<[string, (told: Told, service: () => ReturnType<typeof open>) => Promise<ReturnType<typeof open>>]>(
    [
      ['before the store was made', async (told, make) => (await told.select(2), make())],
      [
        'between the start and the first lock',
        async (told, make) => {
          const service = make();
          service.open();
          await redis.eyes.untilListening(1);
          await told.select(2);
          return service;
        },
      ],
    ],
  )(
    'to use database 2, %s, excludes a service with { db: 2 }, and no service of database 0',
    async (_, tell) => {
      await withClient(async (told) => {
        const service = await tell(told, () => open(told.target));
        const [there, elsewhere] = [open(options(2)), open(options(0))];
        const lock = await service.acquire(redis.key);
        expect(await there.tryAcquire(redis.key)).toBeNull();
        expect(await there.inspect(redis.key)).not.toBeNull();
        const other = await elsewhere.tryAcquire(redis.key);
        expect(other).not.toBeNull();
        await Promise.all([lock.release(), other?.release()]);
      });
    },
  );

  it('to use database 0, against its URL, excludes a service of database 0', async () => {
    await withClient(
      async (told) => {
        await told.select(0);
        const lock = await open(told.target).acquire(redis.key);
        expect(await open(options(0)).tryAcquire(redis.key)).toBeNull();
        await lock.release();
      },
      `${redis.url.replace(/\/?$/, '')}/3`,
    );
  });

  it('stays in its database when its connections are lost', async () => {
    await withClient(async (told) => {
      await told.select(2);
      const service = openServiceOn(redisStore(told.target));
      await service.withLock(redis.key, () => undefined);
      await redis.eyes.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      await service.withLock(redis.key, { waitMs: 10_000 }, async () => {
        expect(await open(options(2)).tryAcquire(redis.key)).toBeNull();
      });
    });
  });

  it('to use a database that the server does not have locks nothing, and says so', async () => {
    const service = openServiceOn(redisStore({ host: '127.0.0.1', port: redis.server.port, db: 4000 }));
    const failure = await failureOf(service.acquire(redis.key, { waitMs: 0 }));
    expect(String(failure)).toMatch(/DB index is out of range/);
  });
});

describe('a client of ioredis that selects another database while its locks are held', () => {
  const redis = ownRedis('moved');

  it('gets no new lock, is told why, and keeps and releases those that it has', async () => {
    const client = new Redis(redis.url);
    const service = openServiceOn(redisStore(client, PATIENT));
    const lock = await service.acquire(redis.key);
    await client.select(1);
    const failure = await failureOf(service.tryAcquire('another'));
    expect(failure).toBeInstanceOf(LockConfigurationError);
    expect(String(failure)).toMatch(/from database 0 to 1 by SELECT/);
    expect(await lock.release()).toBe('released');
    await client.select(0);
    await service.withLock(redis.key, () => undefined);
    client.disconnect();
  });
});

/** The values that the application writes when its password is rotated. */
interface Credentials {
  username?: string;
  password: string;
}

describe('a password that is rotated', () => {
  const redis = ownRedis('rotated');
  const place = () => ({ host: '127.0.0.1', port: redis.server.port });
  const setPassword = (password: string) =>
    redis.eyes.client.call('ACL', 'SETUSER', 'app', 'resetpass', `>${password}`, 'on', '~*', '&*', '+@all');

  class Config {
    readonly host = '127.0.0.1';
    readonly username = 'app';
    constructor(
      readonly port: number,
      private readonly credentials: Credentials,
    ) {}
    get password(): string {
      return this.credentials.password;
    }
  }

  it.each<[string, (credentials: Credentials) => { target: RedisTarget; close?: () => unknown }]>([
    [
      'the options of a client of ioredis',
      (credentials) => {
        const client = new Redis({ ...place(), ...credentials, lazyConnect: true });
        Object.defineProperty(credentials, 'password', {
          set(password: string) {
            client.options.password = password;
          },
        });
        return { target: client };
      },
    ],
    [
      'options',
      (credentials) => {
        const target = { ...place(), ...credentials };
        Object.defineProperty(credentials, 'password', {
          set(password: string) {
            target.password = password;
          },
        });
        return { target };
      },
    ],
    [
      'what a getter of options reads',
      (credentials) => ({
        target: {
          ...place(),
          username: 'app',
          get password() {
            return credentials.password;
          },
        },
      }),
    ],
    [
      'what a getter of a class reads',
      (credentials) => ({ target: new Config(redis.server.port, credentials) as RedisTarget }),
    ],
    [
      'the options of a client of node-redis',
      (credentials) => {
        const client = createClient({ socket: place(), ...credentials });
        Object.defineProperty(credentials, 'password', {
          set(password: string) {
            Object.assign(client.options ?? {}, { password });
          },
        });
        return { target: client as RedisTarget };
      },
    ],
    [
      'what the provider of a client of node-redis reads',
      (credentials) => ({
        target: createClient({
          socket: place(),
          credentialsProvider: {
            type: 'async-credentials-provider',
            credentials: async () => ({ username: 'app', password: credentials.password }),
          },
        }) as RedisTarget,
      }),
    ],
  ])('in %s is the one of the next connection', async (_, make) => {
    await setPassword('first');
    const credentials: Credentials = { username: 'app', password: 'first' };
    const { target } = make(credentials);
    const service = openServiceOn(redisStore(target));
    await service.withLock(redis.key, () => undefined);
    await setPassword('second');
    credentials.password = 'second';
    await redis.eyes.client.call('CLIENT', 'KILL', 'USER', 'app');
    const withLock = () => service.withLock(redis.key, () => true).catch(() => false);
    await until(withLock);
    await redis.eyes.untilListening(1);
    expect(await withLock()).toBe(true);
  });

  it('is not lost with a getter that throws for a while', async () => {
    await setPassword('first');
    let isBroken = false;
    const target = {
      ...place(),
      username: 'app',
      get password() {
        if (isBroken) throw new Error('the vault is sealed');
        return 'first';
      },
    };
    const service = openServiceOn(redisStore(target));
    await service.withLock(redis.key, () => undefined);
    isBroken = true;
    await redis.eyes.client.call('CLIENT', 'KILL', 'USER', 'app');
    const withLock = () => service.withLock(redis.key, () => true).catch(() => false);
    await until(withLock);
    expect(await withLock()).toBe(true);
  });
});
