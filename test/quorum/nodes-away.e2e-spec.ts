import { afterEach, describe, expect, it } from '@jest/globals';
import { until } from '#until';
import { Sale, type SaleOptions } from './sellers.js';

const CROWD = { processes: 3, callers: 3 };
const TEST_MS = 60_000;

let sale: Sale;
afterEach(() => sale.close());

async function open(options: Pick<SaleOptions, 'nodes'>): Promise<Sale> {
  return (sale = await Sale.open({ ...CROWD, ...options }));
}

/** Whatever was sold was sold once. */
async function expectSold(): Promise<void> {
  await sale.sellOut();
  const done = await sale.hear('done', CROWD.processes);
  expect(sale.heard('violation')).toEqual([]);
  const shares = done.map(({ sold }) => sold as number);
  expect(shares.reduce((total, share) => total + share, 0)).toBe(await sale.sold());
}

/** So many more than until now. */
async function untilSoldMore(count: number): Promise<void> {
  await sale.untilSold((await sale.sold()) + count);
}

/** Each process once. */
async function untilAllTell(what: 'up' | 'down', node: number): Promise<void> {
  await until(() => told(what).filter((one) => one === node).length === CROWD.processes);
}

function told(what: 'up' | 'down'): unknown[] {
  return sale.heard(what).map(({ node }) => node);
}

describe('a sale under locks on several servers', () => {
  it(
    'goes on, and sells nothing twice, while two of five nodes die one after the other',
    async () => {
      const { nodes } = await open({ nodes: 5 });
      await sale.untilSold(30);
      await nodes[0]?.kill();
      await untilAllTell('down', 1);
      await untilSoldMore(30);
      await nodes[3]?.kill();
      await untilAllTell('down', 4);
      await expectSold();
      expect(new Set(told('down'))).toEqual(new Set([1, 4]));
    },
    TEST_MS,
  );

  it(
    'goes on, and sells nothing twice, while one of three nodes hangs and wakes',
    async () => {
      const { nodes } = await open({ nodes: 3 });
      await sale.untilSold(30);
      await nodes[1]?.pause();
      await untilSoldMore(50);
      await nodes[1]?.resume();
      await expectSold();
      expect(told('down').every((node) => node === 2)).toBe(true);
    },
    TEST_MS,
  );

  it(
    'goes on, and sells nothing twice, while one of three nodes restarts with nothing of what it knew',
    async () => {
      const { nodes } = await open({ nodes: 3 });
      await sale.untilSold(30);
      await nodes[2]?.restart();
      await untilSoldMore(50);
      await nodes[2]?.restart();
      await expectSold();
      expect(told('down').every((node) => node === 3)).toBe(true);
    },
    TEST_MS,
  );
});
