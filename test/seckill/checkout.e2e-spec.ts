import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { post } from '../../apps/seckill/src/crowd/http-client.js';
import { readProof } from '../../apps/seckill/src/demo/proof.js';
import { openTestBranches, type TestBranches } from './support/test-branches.js';

describe('a checkout of several items over two processes', () => {
  let branches: TestBranches;

  beforeAll(async () => {
    branches = await openTestBranches(2, { WAIT_MS: '30000' });
  }, 60_000);
  afterAll(() => branches?.close());

  const checkout = (turn: number, userId: string, ...items: number[]) => {
    const { url } = branches.instances[turn % 2]!;
    const body = { items: items.map((id) => ({ id })) };
    return post(`${url}/checkout`, body, { 'x-user-id': userId });
  };
  const ordersOf = (userId: string) =>
    branches.database.query('SELECT goods_id FROM orders WHERE user_id = $1 ORDER BY goods_id', [userId]);

  it('sells all of a cart or nothing while carts cross, and no cart waits for ever', async () => {
    const [a, b, c] = [await branches.addItem(12), await branches.addItem(8), await branches.addItem(10)];
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
      await readProof(branches.database, a, 12),
      await readProof(branches.database, b, 8),
      await readProof(branches.database, c, 10),
    ];
    expect(proofs).toMatchObject(Array(3).fill({ oversold: 0, lost: 0 }));
    // No cart is refused as long as two items have something left.
    expect(proofs.filter(({ stockLeft }) => stockLeft === 0).length).toBeGreaterThanOrEqual(2);
  }, 60_000);

  it('sells nothing of a cart with one item that is sold out, bought already or not there', async () => {
    const [full, empty] = [await branches.addItem(5), await branches.addItem(0)];
    expect(await checkout(0, 'ann', full, empty)).toMatchObject({ status: 409, body: { code: 'SOLD_OUT' } });
    expect(await checkout(0, 'ann', full, 4711)).toMatchObject({ status: 404 });
    expect(await ordersOf('ann')).toEqual([]);
    const other = await branches.addItem(5);
    expect(await checkout(0, 'ann', full)).toMatchObject({ status: 201 });
    expect(await checkout(1, 'ann', other, full)).toMatchObject({
      status: 409,
      body: { code: 'ALREADY_BOUGHT' },
    });
    expect(await ordersOf('ann')).toEqual([{ goods_id: full }]);
    expect(await readProof(branches.database, other, 5)).toMatchObject({ stockLeft: 5, lost: 0 });
  });

  it.each([
    [[]],
    [[{ id: 1 }, { id: 1 }]],
    [[{ id: '1' }]],
    [[null]],
    [Array.from({ length: 11 }, (_, id) => ({ id: id + 1 }))],
    [undefined],
  ])('refuses the cart %j before it locks anything', async (items) => {
    const { url } = branches.instances[0]!;
    expect(await post(`${url}/checkout`, { items }, { 'x-user-id': 'eve' })).toMatchObject({ status: 400 });
  });
});
