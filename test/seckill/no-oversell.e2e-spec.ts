import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { freezeHolder } from '../../apps/seckill/src/demo/frozen-holder.js';
import { killHolder } from '../../apps/seckill/src/demo/killed-holder.js';
import { readProof } from '../../apps/seckill/src/demo/sale.js';
import { sendCrowd } from '../../apps/seckill/src/live/buyers.js';
import { openTestShop, post, type TestShop } from './support/test-shop.js';

/** Three times as long as the longest request of any store. */
const WATCHDOG_MS = 3000;

describe('a flash sale over four processes', () => {
  let shop: TestShop;

  beforeAll(async () => {
    shop = await openTestShop(4, { WATCHDOG_MS: String(WATCHDOG_MS), WAIT_MS: '30000' });
  }, 180_000);
  afterAll(() => shop?.close());

  describe('with carts of several items', () => {
    const checkout = (turn: number, userId: string, ...items: number[]) => {
      const url = shop.urls[turn % 2]!;
      const body = { items: items.map((id) => ({ id })) };
      return post(`${url}/checkout`, body, { 'x-user-id': userId });
    };
    const ordersOf = (userId: string) =>
      shop.database.query('SELECT goods_id FROM orders WHERE user_id = $1 ORDER BY goods_id', [userId]);

    it('sells all of a cart or nothing while carts cross, and no cart waits for ever', async () => {
      const [a, b, c] = [await shop.addItem(12), await shop.addItem(8), await shop.addItem(10)];
      const carts = [
        [a, b],
        [b, c],
        [c, a],
        [b, a],
        [c, b],
        [a, c],
      ];
      const buyers = Array.from({ length: 48 }, (_, i) => ({ userId: `crossing-${i}`, cart: carts[i % 6]! }));
      const answers = await Promise.all(buyers.map(({ userId, cart }, i) => checkout(i, userId, ...cart)));
      const outcomes = answers.map(({ status, body }) => (status === 201 ? 'sold' : body['code']));
      expect(new Set(outcomes)).toEqual(new Set(['sold', 'SOLD_OUT']));
      for (const [i, { userId, cart }] of buyers.entries()) {
        const bought = outcomes[i] === 'sold' ? cart.toSorted((x, y) => x - y) : [];
        expect(await ordersOf(userId)).toEqual(bought.map((id) => ({ goods_id: id })));
      }
      const proofs = [
        await readProof(shop.database, a),
        await readProof(shop.database, b),
        await readProof(shop.database, c),
      ];
      expect(proofs).toMatchObject(Array(3).fill({ oversold: 0, lost: 0 }));
      // No cart is refused as long as two items have something left.
      expect(proofs.filter(({ stockLeft }) => stockLeft === 0).length).toBeGreaterThanOrEqual(2);
    }, 60_000);

    it('sells nothing of a cart with one item that is sold out, bought already or not there', async () => {
      const [full, empty] = [await shop.addItem(5), await shop.addItem(0)];
      expect(await checkout(0, 'ann', full, empty)).toMatchObject({
        status: 409,
        body: { code: 'SOLD_OUT' },
      });
      expect(await checkout(0, 'ann', full, 4711)).toMatchObject({ status: 404 });
      expect(await ordersOf('ann')).toEqual([]);
      const other = await shop.addItem(5);
      expect(await checkout(0, 'ann', full)).toMatchObject({ status: 201 });
      expect(await checkout(1, 'ann', other, full)).toMatchObject({
        status: 409,
        body: { code: 'ALREADY_BOUGHT' },
      });
      expect(await ordersOf('ann')).toEqual([{ goods_id: full }]);
      expect(await readProof(shop.database, other)).toMatchObject({ stockLeft: 5, lost: 0 });
    });

    it.each([
      [[]],
      [[{ id: 1 }, { id: 1 }]],
      [[{ id: '1' }]],
      [[null]],
      [Array.from({ length: 11 }, (_, id) => ({ id: id + 1 }))],
      [undefined],
    ])('refuses the cart %j before it locks anything', async (items) => {
      expect(await post(`${shop.urls[0]}/checkout`, { items }, { 'x-user-id': 'eve' })).toMatchObject({
        status: 400,
      });
    });
  });

  it('takes the payment of an order once, though ten requests for it arrive at four processes', async () => {
    const buyers = Array.from({ length: 8 }, (_, i) => `payer-${i}`);
    const goodsId = await shop.addItem(buyers.length);
    const payTenTimes = async (userId: string) => {
      const order = await post(`${shop.urls[0]}/goods/${goodsId}/purchase`, {}, { 'x-user-id': userId });
      const path = `/orders/${String(order.body['id'])}/payment`;
      const headers = { 'x-user-id': userId, 'idempotency-key': 'click', 'content-type': 'application/json' };
      const init = { method: 'POST', headers, body: JSON.stringify({ payMs: 50 }) };
      return Promise.all(Array.from({ length: 10 }, (_, i) => fetch(`${shop.urls[i % 4]}${path}`, init)));
    };
    for (const answers of await Promise.all(buyers.map(payTenTimes))) {
      expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(201));
      expect(new Set(await Promise.all(answers.map((it) => it.text()))).size).toBe(1);
      const replayed = answers.filter(({ headers }) => headers.get('idempotent-replayed') === 'true');
      expect(replayed).toHaveLength(9);
    }
    const sql = 'SELECT order_id FROM payments JOIN orders ON orders.id = order_id WHERE goods_id = $1';
    const paid = await shop.database.query<{ order_id: number }>(sql, [goodsId]);
    expect(new Set(paid.map(({ order_id }) => order_id)).size).toBe(buyers.length);
    expect(paid).toHaveLength(buyers.length);
  }, 60_000);

  it('sells exactly the stock, one to a buyer, under tokens that grow', async () => {
    const goodsId = await shop.addItem(20);
    const outcomes = await sendCrowd({
      buyers: 200,
      urls: shop.urls,
      pathOf: () => `/goods/${goodsId}/purchase`,
    });
    expect(outcomes).toEqual({ sold: 20, refused: 180, failed: 0 });
    const proof = await readProof(shop.database, goodsId);
    expect(proof).toEqual({ orders: 20, stockLeft: 0, oversold: 0, lost: 0 });
    const sql = 'SELECT fence FROM orders WHERE goods_id = $1 ORDER BY id';
    const orders = await shop.database.query<{ fence: number }>(sql, [goodsId]);
    const fences = orders.map(({ fence }) => fence);
    expect(fences).toEqual([...new Set(fences)].sort((a, b) => a - b));
  }, 60_000);

  it('notices that a holder was frozen until others had its lock, and writes nothing', async () => {
    await expect(freezeHolder(shop)).resolves.toMatch(
      /it noticed: (503 LOCK_LOST|409 STALE_TOKEN) to its buyer/,
    );
  }, 60_000);

  it('sells exactly the stock when a process is killed in mid-sale', async () => {
    const goodsId = await shop.addItem(30);
    const victim = shop.instances[0]!.process;
    const outcomes = await sendCrowd({
      buyers: 200,
      urls: shop.urls,
      pathOf: () => `/goods/${goodsId}/purchase`,
      onProgress: ({ sold }) => void (sold >= 10 && !victim.killed && victim.kill('SIGKILL')),
    });
    expect(victim.killed).toBe(true);
    expect(outcomes).toEqual({ sold: 30, refused: 170, failed: 0 });
    const proof = await readProof(shop.database, goodsId);
    expect(proof).toEqual({ orders: 30, stockLeft: 0, oversold: 0, lost: 0 });
  }, 60_000);

  it('goes on when a killed holder’s lease is over, and not before', async () => {
    await expect(killHolder(shop)).resolves.toMatch(/^kill -9 instance 3[^]*instance 4, bought \d+ ms later/);
  }, 60_000);
});
