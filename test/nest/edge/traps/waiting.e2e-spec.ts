import { AsyncLocalStorage } from 'node:async_hooks';
import { afterAll, describe, expect, it } from '@jest/globals';
import { Controller, Get, Inject, Injectable, Param } from '@nestjs/common';
import {
  CurrentLock,
  type Lock,
  Locked,
  lockKey,
  LockLostError,
  type LockStore,
  type LockStoreFactory,
  LockWaitTimeoutError,
  memoryStore,
} from 'nestjs-distributed-lock';
import { ManualClock } from 'nestjs-distributed-lock/testing';
import { Redis } from 'ioredis';
import { redisStore, type RedisTarget } from 'nestjs-distributed-lock/redis';
import { until } from '#until';
import { failureOf } from '../../../support/lock-services.js';
import { Stage } from '../../integration/stage.js';
import { fresh, type FreshApp } from './fresh.js';

const WATCHDOG_MS = 200;

/** A store in memory, and how often it was asked for what. */
function counted() {
  const count = { acquire: 0, renew: 0 };
  const factory: LockStoreFactory = {
    create(context) {
      const store = memoryStore().create(context);
      return new Proxy<LockStore>(store, {
        get(target, name) {
          if (name === 'acquire' || name === 'renew') count[name] += 1;
          const value: unknown = Reflect.get(target, name);
          return typeof value === 'function' ? (value.bind(target) as unknown) : value;
        },
      });
    },
  };
  const clock = new ManualClock();
  return { count, clock, options: { store: factory, watchdogTimeoutMs: WATCHDOG_MS, clock } };
}

describe('waiting and holding', () => {
  it('a method that runs for several leases is not entered by a second caller', async () => {
    @Injectable()
    class Shop {
      constructor(@Inject(Stage) private readonly stage: Stage) {}

      @Locked('long', { waitMs: 100 })
      async sell(): Promise<string> {
        await this.stage.reach('long');
        return 'sold';
      }
    }
    const { count, clock, options } = counted();
    const { app, stage } = await fresh({ providers: [Shop], options });
    const first = app.get(Shop).sell();
    await until(() => stage.isAt('long'));
    while (count.renew <= 6) await clock.advance(WATCHDOG_MS / 10);
    const second = failureOf(app.get(Shop).sell());
    await clock.advance(100);
    expect(await second).toBeInstanceOf(LockWaitTimeoutError);
    stage.go('long');
    expect(await first).toBe('sold');
  });

  it('waitMs: 0 asks once although the default is to wait', async () => {
    const { locks } = await fresh({});
    const mine = await locks.acquire('zero');
    const asked = performance.now();
    await expect(locks.acquire('zero', { waitMs: 0 })).rejects.toThrow('Give waitMs to wait for it.');
    expect(performance.now() - asked).toBeLessThan(locks.options.waitMs / 2);
    await mine.release();
  });

  it('a lock that was waited for has its whole lease before it', async () => {
    const { locks } = await fresh({});
    const mine = await locks.acquire('late');
    const theirs = locks.acquire('late', { leaseMs: 60_000 });
    await new Promise((resolve) => setTimeout(resolve, 200));
    await mine.release();
    const lock = await theirs;
    expect(lock.validForMs).toBeGreaterThan(45_000);
    expect(lock.signal.aborted).toBe(false);
    await lock.release();
  });

  it('a released lock is renewed no more', async () => {
    const { count, clock, options } = counted();
    const { locks } = await fresh({ options });
    const lock = await locks.acquire('over');
    await clock.advance(WATCHDOG_MS);
    const before = count.renew;
    expect(before).toBeGreaterThan(0);
    await lock.release();
    await clock.advance(2 * WATCHDOG_MS);
    expect(count.renew).toBe(before);
  });

  it('two requests of one process exclude each other, whatever context they come from', async () => {
    const requests = new AsyncLocalStorage<string>();
    @Controller()
    class Goods {
      inside = 0;

      @Get(':id')
      @Locked('one')
      async read(@Param('id') id: string): Promise<string> {
        const among = ++this.inside;
        await new Promise((resolve) => setTimeout(resolve, 10));
        this.inside -= 1;
        return `${requests.getStore()} ${id} ${among}`;
      }
    }
    const { fetch } = await fresh({
      controllers: [Goods],
      prepare: (app) =>
        app.use((request: { url: string }, _response: unknown, next: () => void) =>
          requests.run(`request ${request.url}`, next),
        ),
    });
    const answers = await Promise.all(['1', '2', '3'].map(async (id) => (await fetch(`/${id}`)).text()));
    expect(answers).toEqual(['request /1 1 1', 'request /2 2 1', 'request /3 3 1']);
  });

  it('a caller that gets the lock from another one goes on in its own context', async () => {
    const contexts = new AsyncLocalStorage<string>();
    @Injectable()
    class Shop {
      constructor(@Inject(Stage) private readonly stage: Stage) {}

      @Locked('context')
      async sell(who: string): Promise<string> {
        if (who === 'first') await this.stage.reach('inside');
        return `${who} in ${contexts.getStore()}`;
      }
    }
    const { app, stage } = await fresh({ providers: [Shop] });
    const first = contexts.run('one', () => app.get(Shop).sell('first'));
    await until(() => stage.isAt('inside'));
    const second = contexts.run('two', () => app.get(Shop).sell('second'));
    stage.go('inside');
    expect(await Promise.all([first, second])).toEqual(['first in one', 'second in two']);
  });
});

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
