import { afterAll, beforeAll, expect, it, jest } from '@jest/globals';
import { startRedisServer, type RedisServer } from '#redis-server';
import type { Peer } from './support/peer.js';
import { describeBesideJava, Stage } from './support/stage.js';

jest.setTimeout(60_000);

describeBesideJava('the order that measures', () => {
  let server: RedisServer;
  let stage: Stage;
  let java: Peer;

  beforeAll(async () => {
    server = await startRedisServer();
    stage = new Stage({ url: server.url });
    java = await stage.start('java');
  });
  afterAll(async () => {
    await stage?.close();
    await server?.stop();
  });

  it.each([
    ['serial', 1],
    ['hot1', 4],
    ['hop', 1],
  ])(
    'counts the turns of %s by each of its threads, and tells their waits in order',
    async (scenario, threads) => {
      const figures = await java.order('bench', `bench:${scenario}`, {
        scenario,
        threads,
        warmUpMs: 100,
        forMs: 500,
      });
      const perThread = figures['perThread'] as number[];
      expect(perThread).toHaveLength(threads);
      expect(Math.min(...perThread)).toBeGreaterThan(0);
      expect(perThread.reduce((sum, turns) => sum + turns)).toBe(figures['count']);
      expect(figures['perSecond']).toBe((figures['count'] as number) * 2);
      const waits = [50, 90, 99, 100].map((percent) => figures[`waitP${percent}Ms`] as number);
      expect(waits).toEqual([...waits].sort((a, b) => a - b));
      expect(waits[0]).toBeGreaterThan(0);
    },
  );

  it('begins and ends at the time that it is told, together with another process', async () => {
    const other = await stage.start('java');
    const startAtMs = Date.now() + 300;
    const order = { scenario: 'hop', startAtMs, forMs: 500, holdMs: 1 };
    const [one, two] = await Promise.all(
      [java, other].map((peer) => peer.order('bench', 'bench:two', order)),
    );
    // Redisson's plain lock has no order: one of the two may have had all turns.
    expect([one, two].some((figures) => (figures?.['count'] as number) > 0)).toBe(true);
    for (const figures of [one, two]) expect(figures?.atMs).toBeGreaterThanOrEqual(startAtMs + 500);
  });
});
