import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Section, View } from '../../apps/seckill/src/live/view.js';
import { watch } from './support/live-stream.js';
import { openTestShop, post, type TestShop } from './support/test-shop.js';

describe('the live stream of two processes', () => {
  let shop: TestShop;

  beforeAll(async () => {
    shop = await openTestShop(2);
  }, 60_000);
  afterAll(() => shop?.close());

  const play = async (crowd: { buyers: number; locked: boolean; payMs: number }) => {
    const [first, second] = shop.urls as [string, string];
    // Both are seen by each other before the crowd picks its instances.
    await watch(first, ({ instances }) => instances.length === 2);
    const views = watch(second, ({ goods }) => sum(goods.map(({ orders }) => orders)) >= crowd.buyers);
    expect((await post(`${first}/crowd`, crowd)).status).toBe(202);
    const seen = await views;
    await watch(first, (view) => view.crowd?.isRunning === false);
    return seen;
  };
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
  const sectionsOf = (views: readonly View[]) => [
    ...new Map(views.flatMap(({ sections }) => sections).map((it) => [it.id, it])).values(),
  ];
  const overlapping = (sections: readonly Section[]) =>
    sections.filter((a) =>
      sections.some((b) => a.id !== b.id && a.goodsId === b.goodsId && a.from < b.to && b.from < a.to),
    );

  it('tells the page of one process who holds, who waits and all sections, which never overlap', async () => {
    // Long beside the time between two views, and each process always waits for the other: every view has a line to show.
    const views = await play({ buyers: 120, locked: true, payMs: 50 });
    const sections = sectionsOf(views);
    const instances = views.at(-1)!.instances.map(({ id }) => id);
    expect(new Set(sections.map(({ instance }) => instance))).toEqual(new Set(instances));
    expect(overlapping(sections)).toEqual([]);
    const locks = views.flatMap(({ goods }) => goods.map(({ lock }) => lock!));
    expect(instances).toEqual(expect.arrayContaining(locks.flatMap(({ holder }) => holder ?? [])));
    expect(locks.some(({ holder }) => holder !== null)).toBe(true);
    expect(locks.some(({ queue }) => queue.length > 0)).toBe(true);
  }, 60_000);

  it('is reset to what was offered, and shows sections that overlap when there is no lock', async () => {
    const [first] = shop.urls as [string];
    await post(`${first}/crowd/reset`, {});
    const [fresh] = await watch(first, () => true);
    expect(fresh!.goods.map(({ stock, offered, orders }) => [offered - stock, orders])).toEqual(
      Array(3).fill([0, 0]),
    );
    const views = await play({ buyers: 60, locked: false, payMs: 10 });
    expect(overlapping(sectionsOf(views)).length).toBeGreaterThan(0);
  }, 60_000);

  it.each([
    [{ buyers: 0 }],
    [{ buyers: 2001 }],
    [{ buyers: 10, payMs: 10_001 }],
    [{ buyers: 10, locked: 'no' }],
    [{}],
  ])('sends no crowd of %j', async (crowd) => {
    expect((await post(`${shop.urls[0]}/crowd`, crowd)).status).toBe(400);
  });
});
