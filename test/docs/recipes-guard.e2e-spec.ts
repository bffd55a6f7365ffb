import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { DistributedLockModule, LockService, memoryStore } from 'nestjs-distributed-lock';
import type { SqlQuery } from 'nestjs-distributed-lock/guard';
import pg from 'pg';
import { startRedisServer, type RedisServer } from '#redis-server';
import { startDatabaseServer, type DatabaseServer } from '../../apps/seckill/src/demo/database-server.js';
import { startApp, type StartedApp } from '../nest/integration/stage.js';
import { pgQuery } from './recipes/fenced-queries.js';
import { Sale } from './recipes/fenced-sale.js';

const locks = new LockService({ store: memoryStore() });
beforeAll(() => locks.open());
afterAll(() => locks.close());

describe('the recipe of a fenced sale', () => {
  let database: DatabaseServer;
  let pool: pg.Pool;
  let query: SqlQuery;

  beforeAll(async () => {
    database = await startDatabaseServer();
    pool = new pg.Pool({ connectionString: database.url });
    query = pgQuery(pool);
    await query('CREATE TABLE goods (id int PRIMARY KEY, stock int, fence bigint NOT NULL DEFAULT 0)', []);
    await query('INSERT INTO goods VALUES (1, 2)', []);
  }, 60_000);
  afterAll(async () => {
    await pool?.end();
    await database?.close();
  });

  it('sells until nothing is left, and nothing once a larger token was seen', async () => {
    const sale = new Sale(locks, query);
    expect(await Promise.all([sale.sellOne(1), sale.sellOne(1)])).toEqual([1, 0]);
    await expect(sale.sellOne(1)).rejects.toThrow('sold out');
    await query('UPDATE goods SET stock = 5, fence = $1', [2 ** 53 - 1]);
    await expect(sale.sellOne(1)).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });
});

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
