import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Module, type INestApplicationContext, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Redis } from 'ioredis';
import { LockService, type LockWaitTimeoutError } from 'nestjs-distributed-lock';
import { startApp } from '../nest/integration/stage.js';
import { CartController } from './recipes/class-defaults.js';
import { AppModule as ConfiguredModule } from './recipes/configured.js';
import { AppModule as TwoStoresModule, Thumbnails } from './recipes/two-stores.js';

const open: INestApplicationContext[] = [];

async function started(...modules: Type<unknown>[]): Promise<INestApplicationContext> {
  const app = await (await Test.createTestingModule({ imports: modules }).compile()).init();
  open.push(app);
  return app;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((app) => app.close()));
  jest.restoreAllMocks();
});

describe('options from a configuration', () => {
  it('are taken from its service, and locks are there in modules that import nothing', async () => {
    class Elsewhere {
      constructor(readonly locks: LockService) {}
    }
    @Module({
      providers: [
        { provide: Elsewhere, useFactory: (it: LockService) => new Elsewhere(it), inject: [LockService] },
      ],
    })
    class OtherModule {}

    const app = await started(ConfiguredModule, OtherModule);
    const { locks } = app.get(Elsewhere);
    expect(locks.options).toMatchObject({ keyPrefix: 'shop:dev:', waitMs: 3000 });
    const key = `configured-${process.pid}`;
    const redis = new Redis(String(process.env['REDIS_URL']));
    await locks.withLock(key, async () => expect(await redis.exists(`shop:dev:${key}`)).toBe(1));
    redis.disconnect();
  });
});

describe('options of a class', () => {
  const order = (isDraft: boolean): RequestInit => ({
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ isDraft }),
  });

  it('hold for its methods, a method may say otherwise, and what needs no lock waits for none', async () => {
    const { app, fetch, locks } = await startApp('express', { controllers: [CartController] });
    open.push(app);
    const waited: number[] = [];
    locks.events$.subscribe((event) => {
      if (event.type === 'abandoned') waited.push((event.error as LockWaitTimeoutError).waitMs);
    });
    await locks.withLock('cart:7', async () => {
      expect((await fetch('/carts/7/lines', { method: 'POST' })).status).toBe(409);
      expect((await fetch('/carts/7/order', order(false))).status).toBe(409);
      expect(await (await fetch('/carts/7/order', order(true))).text()).toBe('what 7 would cost');
    });
    expect(waited).toEqual([500, 0]);
    expect(await (await fetch('/carts/7/order', order(false))).text()).toBe('ordered 7');
  });
});

describe('two registrations', () => {
  it('lock apart from each other, each by its name', async () => {
    const app = await started(TwoStoresModule);
    const thumbnails = app.get(Thumbnails);
    expect(await thumbnails.replace('cat')).toBe('cat is smaller');
    const shared = await app.get(LockService).acquire('cpu');
    expect(await thumbnails.isIdle()).toBe(true);
    expect(await thumbnails.shrink('dog')).toBe('dog is smaller');
    await shared.release();
  });
});
