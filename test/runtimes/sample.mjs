// What a runtime other than Node must be able to do: run by node tools/runtimes.mjs, on a Redis server of its own.
import 'reflect-metadata';
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { startRedisServer } from '#redis-server';
import {
  DistributedLockModule,
  Locked,
  LockLostError,
  LockService,
  memoryStore,
} from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';

const server = await startRedisServer();

class Shop {
  inside = 0;
  most = 0;

  async buy(_id) {
    this.most = Math.max(this.most, ++this.inside);
    await pause(2);
    this.inside -= 1;
  }
}
const methods = Object.getOwnPropertyDescriptor(Shop.prototype, 'buy');
Object.defineProperty(Shop.prototype, 'buy', Locked('shop:<_id>')(Shop.prototype, 'buy', methods) ?? methods);

/** An application of its own, as in another process. @param {() => any} makeStore */
async function start(makeStore) {
  const store = makeStore();
  class AppModule {}
  Module({ imports: [DistributedLockModule.forRoot({ store, watchdogTimeoutMs: 1500 })], providers: [Shop] })(
    AppModule,
  );
  const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error'] });
  return { app, locks: app.get(LockService), shop: app.get(Shop) };
}

const claims = {
  'callers of two applications are inside one after the other': async (one, two) => {
    let inside = 0;
    const work = async () => {
      assert.equal(++inside, 1);
      await pause(1);
      inside -= 1;
    };
    const turns = Array.from({ length: 40 }, (_, i) =>
      (i % 2 ? one : two).locks.withLock('k', { waitMs: 20_000 }, work),
    );
    await Promise.all(turns);
  },
  'a flow that holds a lock has it again, also after an await': async ({ locks }) => {
    await locks.withLock('k', async (outer) => {
      await pause(5);
      await locks.withLock('k', { waitMs: 0 }, (inner) =>
        assert.equal(inner.fencingToken, outer.fencingToken),
      );
    });
  },
  'a method with @Locked runs for one caller at a time': async ({ shop }) => {
    await Promise.all(Array.from({ length: 5 }, () => shop.buy(1)));
    assert.equal(shop.most, 1);
  },
  'the watchdog keeps a lock for longer than its lease': async ({ locks }) => {
    await locks.withLock('k', async (lock) => {
      await pause(2500);
      lock.assertHeld();
    });
  },
  'a loss aborts the signal of the lock': async (one, two) => {
    const lock = await one.locks.acquire('k');
    const lost = new Promise((resolve) => lock.signal.addEventListener('abort', resolve));
    await two.locks.forceRelease('k');
    await lost;
    assert(lock.signal.reason instanceof LockLostError);
    await lock.release();
  },
};

/** One back end, as two applications see it. @type {Record<string, () => () => any>} */
const STORES = {
  memory: () => {
    const shared = memoryStore();
    return () => shared;
  },
  Redis: () => () => redisStore(server.url),
};

for (const [name, open] of Object.entries(STORES)) {
  const makeStore = open();
  const [one, two] = [await start(makeStore), await start(makeStore)];
  for (const [claim, check] of Object.entries(claims)) {
    await check(one, two);
    console.log(`${name}: ${claim}`);
  }
  await Promise.all([one.app.close(), two.app.close()]);
}
await server.stop();
