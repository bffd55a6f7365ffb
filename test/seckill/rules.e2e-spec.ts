import type { INestApplication } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { LockService } from 'nestjs-distributed-lock';
import request from 'supertest';
import { readConfig } from '../../apps/seckill/src/config.js';
import { createApp } from '../../apps/seckill/src/create-app.js';
import { startDatabaseServer, type DatabaseServer } from '../../apps/seckill/src/demo/database-server.js';
import { runSale } from '../../apps/seckill/src/crowd/sale.js';
import { wishFor } from '../../apps/seckill/src/crowd/wish.js';
import { StaleFence } from '../../apps/seckill/src/goods/goods.errors.js';
import { GoodsRepository } from '../../apps/seckill/src/goods/goods.repository.js';
import { OrdersRepository } from '../../apps/seckill/src/orders/orders.repository.js';

let server: DatabaseServer;

beforeAll(async () => {
  server = await startDatabaseServer();
}, 60_000);
afterAll(() => server?.close());

const open = (env: Record<string, string>) =>
  createApp(readConfig({ PORT: '0', DATABASE_URL: server.url, ...env }));

describe('the flash sale', () => {
  let app: INestApplication;
  let url: string;

  beforeAll(async () => {
    app = await open({});
    url = await app.getUrl();
  }, 60_000);
  afterAll(() => app?.close());

  const addItem = async (stock: number) => (await app.get(GoodsRepository).add('item', stock)).id;
  const stockOf = async (id: number) => (await app.get(GoodsRepository).find(id)).stock;
  const buy = (id: number | string, userId: string) =>
    request(url).post(`/goods/${id}/purchase`).set('x-user-id', userId);

  it('sells one item to a buyer, however often and how fast it is asked', async () => {
    const id = await addItem(5);
    const answers = await Promise.all(Array.from({ length: 5 }, () => buy(id, 'ann')));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ body }) => body.code === 'ALREADY_BOUGHT')).toHaveLength(4);
    expect(await stockOf(id)).toBe(4);
    await request(url)
      .get(`/orders?goodsId=${id}`)
      .expect(200)
      .expect(({ body }) => {
        expect(body).toMatchObject([{ goodsId: id, userId: 'ann' }]);
      });
  });

  it('takes the buyer from the body, too', async () => {
    const id = await addItem(1);
    const { body } = await request(url).post(`/goods/${id}/purchase`).send({ userId: 'ben' }).expect(201);
    expect(body).toMatchObject({ goodsId: id, userId: 'ben' });
  });

  it('tells who asks again after the last item was sold that it was sold to them', async () => {
    const id = await addItem(1);
    await buy(id, 'ann').expect(201);
    await buy(id, 'ann')
      .expect(409)
      .expect(({ body }) => expect(body.code).toBe('ALREADY_BOUGHT'));
    await buy(id, 'ben')
      .expect(409)
      .expect(({ body }) => expect(body.code).toBe('SOLD_OUT'));
  });

  it('says when an item is sold out', async () => {
    const id = await addItem(0);
    await buy(id, 'ann')
      .expect(409)
      .expect(({ body }) => expect(body.code).toBe('SOLD_OUT'));
  });

  it.each([
    ['POST', '/goods/x/purchase', {}, 'ann', "An item's id"],
    ['POST', '/goods/99999999999/purchase', {}, 'ann', "An item's id"],
    ['POST', '/goods/1/purchase', {}, undefined, 'Say who buys'],
    ['POST', '/goods/1/purchase', { userId: 7 }, undefined, 'Say who buys'],
    ['POST', '/goods/1/purchase', {}, 'a b', 'Say who buys'],
    ['POST', '/goods/1/restock', { amount: 0 }, undefined, 'amount must be'],
    ['POST', '/goods/1/restock', { amount: '5' }, undefined, 'amount must be'],
    ['POST', '/goods', { name: '', stock: 1 }, undefined, 'name must be'],
    ['POST', '/goods', { name: 'a', stock: -1 }, undefined, 'stock must be'],
    ['GET', '/orders', undefined, undefined, "An item's id"],
  ])('answers 400 to %s %s with %j from %s', async (method, path, body, buyer, message) => {
    const call = method === 'GET' ? request(url).get(path) : request(url).post(path).send(body);
    if (buyer !== undefined) call.set('x-user-id', buyer);
    const answer = await call;
    expect(answer.status).toBe(400);
    expect(answer.body.message).toContain(message);
  });

  it('answers 404 for an item that does not exist', async () => {
    await buy(4711, 'ann').expect(404);
    await request(url).get('/goods/4711').expect(404);
    await request(url).post('/goods/4711/restock').send({ amount: 1 }).expect(404);
  });

  it('loses no restock and no order when both happen at once', async () => {
    const id = await addItem(20);
    await Promise.all([
      ...Array.from({ length: 10 }, (_, i) => buy(id, `buyer-${i}`).expect(201)),
      ...Array.from({ length: 10 }, () =>
        request(url).post(`/goods/${id}/restock`).send({ amount: 1 }).expect(201),
      ),
    ]);
    expect(await stockOf(id)).toBe(20);
  });

  it('refuses in the database whoever comes with a smaller token than was seen, at reading and at writing', async () => {
    const goods = app.get(GoodsRepository);
    const orders = app.get(OrdersRepository);
    const item = await goods.findUnder(100, await addItem(5));
    await goods.findUnder(101, item.id);
    await expect(goods.findUnder(100, item.id)).rejects.toThrow(StaleFence);
    await expect(goods.saveStock(item, 1, 100)).rejects.toThrow(StaleFence);
    await expect(orders.place([{ goods: item, fence: 100 }], 'ann')).rejects.toThrow(StaleFence);
    expect(await orders.of(item.id)).toEqual([]);
    expect(await stockOf(item.id)).toBe(5);
    await expect(orders.place([{ goods: item, fence: 101 }], 'ann')).resolves.toMatchObject([{ fence: 101 }]);
  });
});

describe('the flash sale for buyers who do not wait', () => {
  it('restocks and sells under one lock, however the id is written', async () => {
    const app = await open({ WAIT_MS: '0' });
    try {
      const url = await app.getUrl();
      const { id } = await app.get(GoodsRepository).add('item', 5);
      const buy = (path: string) => request(url).post(`/goods/${path}/purchase`).set('x-user-id', 'ann');
      const restock = () => request(url).post(`/goods/${id}/restock`).send({ amount: 3 });
      await app.get(LockService).withLock(`goods:${id}`, async () => {
        await buy(`${id}`)
          .expect(423)
          .expect('retry-after', /^[1-9]\d*$/);
        await buy(`0${id}`).expect(423);
        await restock().expect(423);
      });
      await restock().expect(201);
      await buy(`0${id}`).expect(201);
      expect((await app.get(GoodsRepository).find(id)).stock).toBe(7);
    } finally {
      await app.close();
    }
  }, 60_000);
});

describe('the flash sale without its lock', () => {
  it('oversells, which is what the other tests would see if the lock did nothing', async () => {
    const app = await open({ LOCK: 'off' });
    try {
      const url = await app.getUrl();
      const sell = async (stock: number) => {
        const { id: goodsId } = await app.get(GoodsRepository).add('item', stock);
        await runSale({
          wishOf: () => wishFor(goodsId),
          buyers: 100,
          urls: () => [url],
          onProgress: () => {},
        });
        return app.get(OrdersRepository).of(goodsId);
      };
      // The first sale opens the connections: until then buyers arrive one after the other.
      await sell(0);
      expect((await sell(5)).length).toBeGreaterThan(5);
    } finally {
      await app.close();
    }
  }, 60_000);
});
