import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { until } from '#until';
import { buyFrom, openTestShop, type TestShop } from './support/test-shop.js';

describe('a flash sale whose Redis dies', () => {
  let shop: TestShop;

  beforeAll(async () => {
    shop = await openTestShop(1, { WAIT_MS: '1000' });
  }, 60_000);
  afterAll(() => shop?.close());

  it('answers 503 and sells nothing until it is back, then goes on', async () => {
    const [instance] = shop.instances;
    const goodsId = await shop.addItem(10);
    await shop.redis.kill();
    expect(await buyFrom(instance!, goodsId, 'ann')).toMatchObject({ status: 503 });
    expect((await fetch(`${instance!.url}/goods/${goodsId}`)).status).toBe(200);
    expect(await shop.database.query('SELECT FROM orders')).toHaveLength(0);
    await shop.redis.restart();
    await until(async () => (await buyFrom(instance!, goodsId, 'ann')).status === 201);
  }, 60_000);
});
