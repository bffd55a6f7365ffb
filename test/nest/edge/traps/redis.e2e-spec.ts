import { afterAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Redis } from 'ioredis';
import { CurrentLock, LockLostError, Locked, lockKey, type Lock } from 'nestjs-distributed-lock';
import { redisStore, type RedisTarget } from 'nestjs-distributed-lock/redis';
import { until } from '#until';
import { fresh, type FreshApp } from './fresh.js';

const url = String(process.env['REDIS_URL']);

@Injectable()
class Till {
  @Locked('till:<0>', { waitMs: 200 })
  async open(_name: string, @CurrentLock() lock?: Lock): Promise<string | undefined> {
    return lock?.key;
  }
}

const start = (target: RedisTarget = url): Promise<FreshApp> =>
  fresh({ providers: [Till], options: { store: redisStore(target) } });

describe('applications on Redis', () => {
  const client = new Redis(url, { lazyConnect: true });
  afterAll(() => client.disconnect());

  it('boot, answer and close while Redis is down', async () => {
    const { app } = await start('redis://127.0.0.1:1');
    await expect(app.get(Till).open('a')).rejects.toMatchObject({ code: 'LOCK_STORE' });
    await app.close();
  });

  it.each(['"quoted"', "it's", 'a\nb', '{slot}', '锁🔒', ' ', '%3A', '__proto__', '\0'])(
    'hand a lock over for the value %j, and change nobody else',
    async (name) => {
      const [one, two] = [await start(), await start()];
      const mine = await one.locks.acquire(lockKey`till:${name}`);
      const theirs = two.locks.acquire(lockKey`till:${name}`);
      await until(async () => (await one.locks.inspect(mine.key))?.pending.length === 1);
      await mine.release();
      await (await theirs).release();
      expect(await two.app.get(Till).open(name)).toBe(mine.key);
    },
  );

  it('do not shorten a renewed lock of another process by asking with a short lease', async () => {
    const [one, two] = [await start(), await start()];
    const key = lockKey`short:${process.pid}`;
    const mine = await one.locks.acquire(key);
    await expect(two.locks.acquire(key, { waitMs: 150, leaseMs: 50 })).rejects.not.toBeInstanceOf(
      LockLostError,
    );
    mine.assertHeld();
    expect(await mine.release()).toBe('released');
  });

  it('leave the client alone that the application has given them, also at their end', async () => {
    await client.connect();
    const { app } = await start(client);
    await app.get(Till).open('mine');
    await app.close();
    expect(client.status).toBe('ready');
    expect(await client.ping()).toBe('PONG');
  });

  it('tell of a lock whose key was deleted before its work can end well', async () => {
    const { locks } = await start();
    const key = lockKey`deleted:${process.pid}`;
    const work = locks.withLock(key, async (lock) => {
      await locks.forceRelease(key);
      await until(() => lock.signal.aborted);
    });
    await expect(work).rejects.toBeInstanceOf(LockLostError);
  });

  it('free the key of a killed holder by its lease, and let its successor in at once then', async () => {
    const [one, two] = [await start(), await start()];
    const key = lockKey`killed:${process.pid}`;
    // Nobody renews it and nobody gives it back, as after a crash.
    const orphan = await one.locks.acquire(key, { leaseMs: 300 });
    const successor = await two.locks.acquire(key, { waitMs: 10_000 });
    expect(successor.fencingToken).toBeGreaterThan(orphan.fencingToken);
    expect(await orphan.release()).toBe('lost');
    await successor.release();
  });
});
