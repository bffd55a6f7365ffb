import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { post } from '../../apps/seckill/src/crowd/http-client.js';
import type { LiveView, Section } from '../../apps/seckill/src/live/live-view.js';
import { watch } from './support/live-stream.js';
import { openTestBranches, type TestBranches } from './support/test-branches.js';

describe('the live stream of two processes', () => {
  let branches: TestBranches;

  beforeAll(async () => {
    branches = await openTestBranches(2, {});
  }, 60_000);
  afterAll(() => branches?.close());

  const play = async (crowd: { buyers: number; locked: boolean; payMs: number }) => {
    const [first, second] = branches.instances;
    // Both are seen by each other before the crowd picks its instances.
    await watch(first!.url, ({ instances }) => instances.length === 2);
    const views = watch(second!.url, ({ goods }) => sum(goods.map(({ orders }) => orders)) >= crowd.buyers);
    expect((await post(`${first!.url}/crowd`, crowd)).status).toBe(202);
    const seen = await views;
    await watch(first!.url, (view) => view.crowd?.running === false);
    return seen;
  };
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
  const sectionsOf = (views: readonly LiveView[]) => [
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
    expect(locks.some(({ waiting }) => sum(Object.values(waiting)) > 0)).toBe(true);
    expect(locks.some(({ line }) => line.length > 0)).toBe(true);
  }, 60_000);

  it('is reset to what was offered, and shows sections that overlap when there is no lock', async () => {
    const [first] = branches.instances;
    await fetch(`${first!.url}/crowd/reset`, { method: 'POST' });
    const [fresh] = await watch(first!.url, () => true);
    expect(fresh!.goods.map(({ stock, offered, orders }) => [offered - stock, orders])).toEqual(
      Array(3).fill([0, 0]),
    );
    const views = await play({ buyers: 60, locked: false, payMs: 10 });
    expect(overlapping(sectionsOf(views)).length).toBeGreaterThan(0);
  }, 60_000);

  it.each([
    [{ buyers: 0 }],
    [{ buyers: 2001 }],
    [{ buyers: 10, payMs: 101 }],
    [{ buyers: 10, locked: 'no' }],
    [{}],
  ])('sends no crowd of %j', async (crowd) => {
    expect((await post(`${branches.instances[0]!.url}/crowd`, crowd)).status).toBe(400);
  });
});
