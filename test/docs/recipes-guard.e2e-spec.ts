import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { DistributedLockModule, LockService, memoryStore } from 'nestjs-distributed-lock';
import { startRedisServer, type RedisServer } from '#redis-server';
import { startApp, type StartedApp } from '../nest/integration/stage.js';

const locks = new LockService({ store: memoryStore() });
beforeAll(() => locks.open());
afterAll(() => locks.close());

describe('the recipe of a fenced shipping service', () => {
  let server: RedisServer;
  let redis: Redis;
  let shop: StartedApp;

  beforeAll(async () => {
    server = await startRedisServer();
    process.env['REDIS_URL'] = server.url;
    const { ShippingModule } = await import('./recipes/fenced-shipping.js');
    shop = await startApp('express', { imports: [ShippingModule, DistributedLockModule.forRoot()] });
    redis = new Redis(server.url);
  }, 60_000);
  afterAll(async () => {
    await shop?.app.close();
    redis?.disconnect();
    await server?.stop();
  });

  it('ships for the holder, and not for the one before', async () => {
    const { ship } = await import('./recipes/fenced-shipping.js');
    const url = await shop.app.getUrl();
    const late = await locks.acquire('goods:7');
    await late.release();
    await locks.withLock('goods:7', async (lock) => {
      expect((await ship(url, 7, lock)).status).toBe(201);
      expect((await ship(url, 7, late)).status).toBe(412);
    });
    expect(await redis.hgetall('shipment:7')).toEqual({ state: 'shipped' });
  });
});
