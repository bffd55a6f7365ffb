import { afterAll, beforeAll, expect, it, jest } from '@jest/globals';
import { startRedisServer } from '#redis-server';
import { Crowd } from './support/crowd.js';
import { violations } from './support/history.js';
import type { Peer, Side } from './support/peer.js';
import { BOTH_WAYS, describeBesideJava, Stage } from './support/stage.js';
import { ownServer } from '../support/own-server.js';

jest.setTimeout(60_000);

const FOR_MS = 6000;

describeBesideJava('one lock that everybody wants', () => {
  const server = ownServer(startRedisServer);
  let stage: Stage;
  let peers: Record<Side, readonly [Peer, Peer]>;

  beforeAll(async () => {
    stage = new Stage({ url: server.url });
    const two = (side: Side) => Promise.all([stage.start(side), stage.start(side)]);
    const [java, nest] = await Promise.all([two('java'), two('nest')]);
    peers = { java, nest };
  });
  afterAll(() => stage?.close());

  /** Two callers of one side and eight of the other, in three processes. */
  async function twoAmongEight(few: Side, many: Side, kind?: 'fair'): Promise<Crowd> {
    const crowd = new Crowd(stage, { names: [`crowd:${few}:${kind}`], holdMs: 2 });
    const processes = [peers[few][0], ...peers[many]];
    const untilMs = Date.now() + FOR_MS;
    const joined = processes.map((peer) =>
      crowd.join(peer, { untilMs, threads: peer.side === few ? 2 : 4, ...(kind && { kind }) }),
    );
    await Promise.all(joined);
    return crowd;
  }

  /**
   * The least turns that a caller got. How many depends on how quick its side is, and between the callers of one side Java's plain
   * lock keeps no order.
   */
  async function leastTurns(crowd: Crowd): Promise<number> {
    expect(violations(await crowd.history())).toEqual([]);
    expect(crowd.done).toHaveLength(10);
    expect(stage.complaints).toBe('');
    return Math.min(...crowd.done.map(({ turns }) => turns));
  }

  it.each(BOTH_WAYS)('two callers of %s and eight of %s all get their turns', async (few, many) => {
    const crowd = await twoAmongEight(few, many);
    expect(await leastTurns(crowd)).toBeGreaterThan(0);
  });

  it.each(BOTH_WAYS)(
    'two callers of %s and eight of %s all get their turns, also where Java’s lock is fair',
    async (few, many) => {
      const crowd = await twoAmongEight(few, many, 'fair');
      expect(await leastTurns(crowd)).toBeGreaterThan(0);
    },
  );
});
