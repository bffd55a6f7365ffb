import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { until } from '#until';
import { openTestBranches, purchase, type TestBranches } from './support/test-branches.js';

describe('a flash sale whose Redis dies', () => {
  let branches: TestBranches;

  beforeAll(async () => {
    branches = await openTestBranches(1, { WAIT_MS: '1000' });
  }, 60_000);
  afterAll(() => branches?.close());

  it('answers 503 and sells nothing until it is back, then goes on', async () => {
    const [instance] = branches.instances;
    const goodsId = await branches.addItem(10);
    await branches.lockServer.kill();
    expect(await purchase(instance!, goodsId, 'ann')).toMatchObject({ status: 503 });
    expect((await fetch(`${instance!.url}/goods/${goodsId}`)).status).toBe(200);
    expect(await branches.database.query('SELECT FROM orders')).toHaveLength(0);
    await branches.lockServer.restart();
    await until(async () => (await purchase(instance!, goodsId, 'ann')).status === 201);
  }, 60_000);
});
