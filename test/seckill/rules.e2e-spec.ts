import type { INestApplication } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { LockService, memoryStore } from 'nestjs-distributed-lock';
import request from 'supertest';
import { createApp } from '../../apps/seckill/src/create-app.js';
import { startEmbeddedDatabase, type EmbeddedDatabase } from '../../apps/seckill/src/embedded-database.js';
import { sendCrowd } from '../../apps/seckill/src/live/buyers.js';
import { readSettings } from '../../apps/seckill/src/settings.js';
import { StaleTokenError } from '../../apps/seckill/src/shop/errors.js';
import { GoodsRepository } from '../../apps/seckill/src/shop/goods.repository.js';
import { OrdersRepository } from '../../apps/seckill/src/shop/orders.repository.js';
import { PurchaseService } from '../../apps/seckill/src/shop/purchase.service.js';
import { RestockService } from '../../apps/seckill/src/shop/restock.service.js';

let embedded: EmbeddedDatabase;

beforeAll(async () => {
  embedded = await startEmbeddedDatabase();
}, 60_000);
afterAll(() => embedded?.close());

/** Locks in memory do for one instance. */
const open = (env: Record<string, string>) =>
  createApp({ ...readSettings({ PORT: '0', DATABASE_URL: embedded.url, ...env }), store: memoryStore() });

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
      .get(`/goods/${id}/orders`)
      .expect(200)
      .expect(({ body }) => {
        expect(body).toMatchObject([{ goodsId: id, userId: 'ann' }]);
      });
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
    ['POST', '/goods/x/purchase', {}, 'ann', 'id must be'],
    ['POST', '/goods/99999999999/purchase', {}, 'ann', 'id must be'],
    ['POST', '/goods/1/purchase', { payMs: -1 }, 'ann', 'payMs must be'],
    ['POST', '/goods/1/purchase', {}, undefined, 'x-user-id'],
    ['POST', '/goods/1/purchase', {}, 'a b', 'x-user-id'],
    ['POST', '/goods/1/restock', { amount: 0 }, undefined, 'amount must be'],
    ['POST', '/goods/1/restock', { amount: 1.5 }, undefined, 'amount must be'],
    ['POST', '/goods', { name: '', stock: 1 }, undefined, 'name must be'],
    ['POST', '/goods', { name: 'a', stock: -1 }, undefined, 'stock must be'],
    ['POST', '/goods', { name: 'a' }, undefined, 'stock must be'],
    ['GET', '/goods/0/orders', undefined, undefined, 'id must be'],
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
    const { fence } = await goods.findUnder(101, item.id);
    expect(fence).toBe(101);
    await expect(goods.findUnder(100, item.id)).rejects.toThrow(StaleTokenError);
    await expect(goods.addStock(item, 1, 100)).rejects.toThrow(StaleTokenError);
    await expect(orders.place([item], 'ann')).rejects.toThrow(StaleTokenError);
    expect(await orders.of(item.id)).toEqual([]);
    expect(await stockOf(item.id)).toBe(5);
    await expect(orders.place([{ ...item, fence }], 'ann')).resolves.toMatchObject([{ fence: 101 }]);
    await goods.reset(item.id, 100);
    expect([await stockOf(item.id), await orders.of(item.id)]).toMatchObject([4, [{ userId: 'ann' }]]);
  });

  it('refuses the write of a holder that has not noticed that others had its lock', async () => {
    const id = await addItem(5);
    const goods = app.get(GoodsRepository);
    const purchases = app.get(PurchaseService);
    const unaware = (fence: number) => ({ tokenOf: () => fence, assertHeld: () => undefined });
    const read = goods.findUnder.bind(goods);
    jest.spyOn(goods, 'findUnder').mockImplementationOnce(async (fence, goodsId) => {
      const item = await read(fence, goodsId);
      // As if the process froze here: another buyer has the lock before this one goes on.
      await purchases.buy([id], 'prompt', unaware(101));
      return item;
    });
    await expect(purchases.buy([id], 'late', unaware(100))).rejects.toThrow(StaleTokenError);
    expect(await app.get(OrdersRepository).of(id)).toMatchObject([{ userId: 'prompt', fence: 101 }]);
    expect(await stockOf(id)).toBe(4);
  });

  it('writes nothing when the lock was lost during the payment', async () => {
    const id = await addItem(5);
    const assertHeld = () => {
      throw new Error('lost');
    };
    const purchase = app.get(PurchaseService).buy([id], 'ann', { tokenOf: () => 100, assertHeld });
    await expect(purchase).rejects.toThrow('lost');
    expect([await stockOf(id), await app.get(OrdersRepository).of(id)]).toEqual([5, []]);
  });

  it('puts everything back on the shelf for a new sale', async () => {
    const id = await addItem(5);
    await buy(id, 'ann').expect(201);
    await app.get(RestockService).reset();
    expect([await stockOf(id), await app.get(OrdersRepository).of(id)]).toEqual([5, []]);
    await buy(id, 'ann').expect(201);
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
    const app = await open({});
    try {
      const urls = [await app.getUrl()];
      const sell = async (stock: number) => {
        const { id } = await app.get(GoodsRepository).add('item', stock);
        await sendCrowd({ buyers: 100, urls, pathOf: () => `/goods/${id}/purchase-without-lock` });
        return app.get(OrdersRepository).of(id);
      };
      // The first sale opens the connections: until then buyers arrive one after the other.
      await sell(0);
      expect((await sell(5)).length).toBeGreaterThan(5);
    } finally {
      await app.close();
    }
  }, 60_000);
});
