import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { LockService, lockKey } from 'nestjs-distributed-lock';
import type { Instance } from '../../apps/seckill/src/demo/instance.js';
import { readProof } from '../../apps/seckill/src/demo/proof.js';
import { post } from '../../apps/seckill/src/crowd/http-client.js';
import { runSale } from '../../apps/seckill/src/crowd/sale.js';
import { wishFor } from '../../apps/seckill/src/crowd/wish.js';
import { lockStoreOf } from '../../apps/seckill/src/stores/lock-store.js';
import { until } from '#until';
import { openTestBranches, purchase, untilCaughtUp, type TestBranches } from './support/test-branches.js';

/** Three times as long as the longest request of any store. */
const WATCHDOG_MS = 3000;

describe('a flash sale over four processes', () => {
  let branches: TestBranches;
  let locks: LockService;
  /** Each test that ends a process takes it from here. */
  let running: Instance[];

  beforeAll(async () => {
    branches = await openTestBranches(4, { WATCHDOG_MS: String(WATCHDOG_MS), WAIT_MS: '30000' });
    running = [...branches.instances];
    locks = new LockService({ store: lockStoreOf(branches.config) });
  }, 180_000);
  afterAll(async () => {
    await locks?.close();
    await branches?.close();
  });

  const lockOf = (goodsId: number) => locks.inspect(lockKey`goods:${goodsId}`);
  const isHeld = async (goodsId: number) => (await lockOf(goodsId))?.holders.length === 1;
  const urls = () => running.map(({ url }) => url);

  describe('with carts of several items', () => {
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
      expect(await checkout(0, 'ann', full, empty)).toMatchObject({
        status: 409,
        body: { code: 'SOLD_OUT' },
      });
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

  it('sells exactly the stock, one to a buyer, under tokens that grow', async () => {
    const goodsId = await branches.addItem(20);
    const { outcomes } = await runSale({
      wishOf: () => wishFor(goodsId),
      buyers: 200,
      urls,
      onProgress: () => {},
    });
    expect(outcomes).toEqual({ sold: 20, refused: 180, failed: 0 });
    const proof = await readProof(branches.database, goodsId, 20);
    expect(proof).toEqual({ orders: 20, stockLeft: 0, oversold: 0, lost: 0 });
    const sql = 'SELECT fence FROM orders WHERE goods_id = $1 ORDER BY id';
    const orders = await branches.database.query<{ fence: number }>(sql, [goodsId]);
    const fences = orders.map(({ fence }) => fence);
    expect(fences).toEqual([...new Set(fences)].sort((a, b) => a - b));
  }, 60_000);

  it('sells exactly the stock when a process is killed in mid-sale', async () => {
    const goodsId = await branches.addItem(30);
    let victim: Instance | undefined;
    const onProgress = (_: number, sold: number) => {
      if (sold < 10 || victim) return;
      victim = running.pop();
      victim?.signal('SIGKILL');
    };
    const { outcomes } = await runSale({ wishOf: () => wishFor(goodsId), buyers: 200, urls, onProgress });
    await victim?.exited;
    expect(running).toHaveLength(3);
    expect(outcomes).toEqual({ sold: 30, refused: 170, failed: 0 });
    const proof = await readProof(branches.database, goodsId, 30);
    expect(proof).toEqual({ orders: 30, stockLeft: 0, oversold: 0, lost: 0 });
  }, 60_000);

  it('refuses the write of a holder that was frozen until others had its lock', async () => {
    const goodsId = await branches.addItem(10);
    const frozen = running.pop()!;
    const release = await branches.holdDatabase();
    const late = purchase(frozen, goodsId, 'late');
    await until(() => isHeld(goodsId));
    // Frozen before it had read that the lock is its own, it would ask for another one, and sell rightly.
    await untilCaughtUp(frozen);
    frozen.signal('SIGSTOP');
    // Its read waits in the database; the answer comes to a process that does not run.
    await release();
    expect(await purchase(running[0]!, goodsId, 'prompt')).toMatchObject({ status: 201 });
    frozen.signal('SIGCONT');
    const { status, body } = await late;
    // The answer may come before the handler has ended; the process ends after it.
    await frozen.stop();
    const sql = 'SELECT user_id, fence FROM orders WHERE goods_id = $1 ORDER BY id';
    const orders = await branches.database.query(sql, [goodsId]);
    expect(orders).toEqual([{ user_id: 'prompt', fence: expect.anything() }]);
    expect(['409 STALE_FENCE', '503 LOCK_LOST']).toContain(`${status} ${String(body['code'])}`);
    expect(await readProof(branches.database, goodsId, 10)).toMatchObject({ stockLeft: 9, lost: 0 });
  }, 60_000);

  it('goes on when a killed holder’s lease is over, and not before', async () => {
    const goodsId = await branches.addItem(10);
    const victim = running.pop()!;
    const release = await branches.holdDatabase();
    const unanswered = purchase(victim, goodsId, 'victim').then(
      () => 'answered',
      () => 'cut off',
    );
    await until(() => isHeld(goodsId));
    victim.signal('SIGKILL');
    expect(await unanswered).toBe('cut off');
    const askedAt = performance.now();
    const { remainingMs: leftMs } = (await lockOf(goodsId))!;
    await release();
    const buyers = ['ann', 'ben', 'cleo'];
    const answers = await Promise.all(buyers.map((buyer) => purchase(running[0]!, goodsId, buyer)));
    const blockedMs = performance.now() - askedAt;
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(leftMs).toBeGreaterThan(0);
    // Without the end of the lease their waits would end first: 30 s.
    expect(blockedMs).toBeGreaterThanOrEqual(leftMs);
  }, 60_000);
});
