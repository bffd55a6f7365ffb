import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { startRedisServer, type RedisServer } from '#redis-server';
import { Redis } from 'ioredis';
import {
  LockStoreError,
  LockWaitTimeoutError,
  systemClock,
  type Grant,
  type LockStore,
} from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { closeServices, openService } from '../../../support/lock-services.js';
import { filter, firstValueFrom } from 'rxjs';
import { until } from '#until';
import { ownServer } from '../../../support/own-server.js';

describe('a master that has to have its grants on a replica', () => {
  const master = ownServer(startRedisServer);
  const replica = ownServer(() => {
    const args = ['--replicaof', '127.0.0.1', `${master.port}`, '--repl-diskless-sync-delay', '0'];
    return startRedisServer({ args });
  });
  let eyes: Redis;
  let key: string;
  let count = 0;

  beforeAll(async () => {
    eyes = new Redis(replica.url);
    await until(async () => (await eyes.info('replication')).includes('master_link_status:up'));
  }, 60_000);
  beforeEach(() => {
    key = `replicas:${++count}`;
  });
  afterEach(async () => {
    await replica.resume();
    await closeServices();
  });
  afterAll(() => eyes?.disconnect());

  const open = (minReplicaAcks: number) => openService(master.url, { minReplicaAcks });

  it('lets nobody in before the replica has it', async () => {
    const locks = open(1);
    const lock = await locks.acquire(key);
    expect(await eyes.exists(key)).toBe(1);
    await lock.release();
    const several = await locks.acquire([`${key}:a`, `${key}:b`]);
    expect(await eyes.exists(`${key}:a`, `${key}:b`)).toBe(2);
    await several.release();
  });

  it('says how many replicas have it when they are too few, and holds nothing', async () => {
    const locks = open(2);
    const failed = locks.acquire(key, { waitMs: 1500 });
    await expect(failed).rejects.toThrow(LockStoreError);
    await expect(failed).rejects.toThrow('1 of 2 replicas had it after 100 ms.');
    await expect(locks.acquire([key, `${key}:b`], { waitMs: 1500 })).rejects.toThrow('1 of 2 replicas');
    await until(async () => (await locks.inspect(key)) === null);
  });

  it('goes on trying while its caller waits, and is granted when the replica is back', async () => {
    const locks = open(1);
    await locks.withLock(key, () => undefined);
    await replica.pause();
    const waiting = locks.acquire(key, { waitMs: 10_000 });
    const onMaster = redisOf(master);
    await until(async () => (await onMaster.exists(`nest_lock_token:{${key}}`)) === 1);
    await replica.resume();
    expect(await (await waiting).release()).toBe('released');
  }, 15_000);

  it('lets a waiter in by a notification only when the replica has that, too', async () => {
    const [first, second] = [open(1), open(1)];
    const lock = await first.acquire(key);
    const next = second.acquire(key, { waitMs: 10_000 });
    await until(async () => (await first.inspect(key))?.pending.length === 1);
    await replica.pause();
    await lock.release();
    const isIn = await Promise.race([next.then(() => true), new Promise((no) => setTimeout(no, 400, false))]);
    expect(isIn).toBe(false);
    await replica.resume();
    const granted = await next;
    expect(await eyes.hexists(key, (await second.inspect(key))?.holders[0] ?? '')).toBe(1);
    expect(granted.fencingToken).toBeGreaterThan(lock.fencingToken);
    await granted.release();
  }, 15_000);

  it('does not confirm a grant by notification that too few replicas have, also when the reply to its acquire was lost', async () => {
    const context = { clock: systemClock, keyPrefix: '', watchdogTimeoutMs: 30_000 };
    const holder = redisStore(master.url).create(context);
    const waiter = redisStore(master.url, { minReplicaAcks: 2, replicaTimeoutMs: 100 }).create(context);
    const owned = ({ clientId }: LockStore) => ({
      key,
      owner: `${clientId}:1`,
      claim: { kind: 'lock' } as const,
      leaseMs: 30_000,
      ticket: 0,
      tokens: 1,
    });
    try {
      expect((await holder.acquire({ ...owned(holder), mayWait: false })).kind).toBe('granted');
      const granted = firstValueFrom(waiter.notifications$.pipe(filter(({ kind }) => kind === 'granted')));
      // The store below the one that counts replicas.
      const below = Object.getPrototypeOf(Object.getPrototypeOf(waiter)) as LockStore;
      const acquire = below.acquire.bind(waiter);
      jest.spyOn(below, 'acquire').mockImplementationOnce(async (request) => {
        expect((await acquire(request)).kind).toBe('queued');
        throw new LockStoreError('the reply was lost', key, 'unknown');
      });
      await expect(waiter.acquire({ ...owned(waiter), mayWait: true })).rejects.toThrow('the reply was lost');
      await holder.release(owned(holder));
      const { token, lastToken } = (await granted) as Grant;
      const [reply] = await waiter.renew([{ ...owned(waiter), token, lastToken }]);
      expect(reply?.kind).toBe('unknown');
      await waiter.release(owned(waiter));
    } finally {
      await Promise.all([holder.close(), waiter.close()]);
    }
  }, 15_000);

  it('still answers busy at once when another holds it', async () => {
    const [first, second] = [open(1), open(1)];
    const lock = await first.acquire(key);
    await replica.pause();
    await expect(second.acquire(key, { waitMs: 0 })).rejects.toThrow(LockWaitTimeoutError);
    await lock.release();
  });

  it.each([
    [{ minReplicaAcks: -1 }, 'minReplicaAcks must be a whole number'],
    [{ minReplicaAcks: 1, replicaTimeoutMs: 0 }, 'replicaTimeoutMs must be a whole number of ms'],
    [{ minReplicaAcks: 1, replicaTimeoutMs: 400 }, 'must be at most half of commandTimeoutMs (500)'],
  ])('refuses options that make no sense: %j', (options, message) => {
    expect(() => redisStore('redis://127.0.0.1:1', options)).toThrow(message);
  });
});

const connections: Redis[] = [];

function redisOf({ url }: RedisServer): Redis {
  const connection = new Redis(url);
  connections.push(connection);
  return connection;
}

afterAll(() => connections.forEach((connection) => connection.disconnect()));
