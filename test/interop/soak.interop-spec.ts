import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { setTimeout as pause } from 'node:timers/promises';
import { startRedisServer } from '#redis-server';
import { Crowd } from './support/crowd.js';
import { turnsOf, violations } from './support/history.js';
import type { Peer, Side } from './support/peer.js';
import { describeBesideJava, Stage } from './support/stage.js';
import { ownServer } from '../support/own-server.js';

jest.setTimeout(150_000);

const FOR_MS = 16_000;
const CRASH_EVERY_MS = 2500;
const AT_LEAST_MS = 5000;
const WATCHDOG_MS = 3000;
/** Java's plain lock, its fair one, and its read-write lock; ours on the same names. */
const KINDS = ['plain', 'plain', 'fair', 'rw'] as const;
const NAMES = Array.from({ length: 12 }, (_, i) => `soak:${i}:${KINDS[i % 4]}`);
const SIDES: readonly Side[] = ['java', 'nest', 'java', 'nest', 'java', 'nest', 'java', 'nest'];

describe('the checker of histories', () => {
  it.each([
    [['enter java:1.1 a 1', 'leave java:1.1 a 1', 'enter nest:2.1 a 7'], 0],
    [['enter java:1.1 a 1', 'enter nest:2.1 a 7'], 1],
    [['enter java:1.1 a 1', 'enter nest:2.1 b 7'], 0],
    [['enter java:9.1 a 1', 'enter nest:2.1 a 7'], 0],
    [['enter java:9.1 a 1', 'enter nest:2.1 a 7', 'leave java:9.1 a 1'], 1],
    [['enter nest:2.1 a 7', 'leave nest:2.1 a 7', 'enter nest:3.1 a 7'], 1],
    [['enter java:1.1 a - read', 'enter nest:2.1 a 7 read', 'leave java:1.1 a - read'], 0],
    [['enter java:1.1 a - read', 'enter nest:2.1 a 7 read', 'enter nest:3.1 a 8 write'], 2],
    [['enter java:1.1 a - write', 'enter nest:2.1 a 7 read'], 1],
  ])('finds in %j so many violations: %d', (history, count) => {
    expect(violations(history, new Set(['java:9']))).toHaveLength(count);
  });
});

describeBesideJava(
  'four services of Java and four of Nest on twelve locks, of which one is killed every few seconds',
  () => {
    const server = ownServer(startRedisServer);
    let stage: Stage;
    let crowd: Crowd;
    let history: string[];

    beforeAll(async () => {
      stage = new Stage({ url: server.url, watchdogTimeoutMs: WATCHDOG_MS, fairWaitMs: WATCHDOG_MS });
      crowd = new Crowd(stage, { names: NAMES, holdMs: 4 });
      const running = await Promise.all(SIDES.map((side) => stage.start(side)));
      const untilMs = Date.now() + FOR_MS;
      // Who comes late on a busy machine has its time, too.
      const join = (peer: Peer) =>
        crowd.join(peer, { untilMs: Math.max(untilMs, Date.now() + AT_LEAST_MS), threads: 3 });
      const joined = running.map(join);
      const replace = async (peer: Peer) => {
        await crowd.kill(peer);
        const successor = await stage.start(peer.side);
        running.push(successor);
        await join(successor);
      };
      while (Date.now() + 2 * CRASH_EVERY_MS < untilMs) {
        await pause(CRASH_EVERY_MS);
        joined.push(replace(running.shift() as Peer));
      }
      await Promise.all(joined);
      history = await crowd.history();
    });
    afterAll(() => stage?.close());

    it('never were two inside one lock, and tokens of each side have grown', () => {
      expect(history.length).toBeGreaterThan(1000);
      expect(violations(history, crowd.killed)).toEqual([]);
    });

    it('processes of both sides were killed', () => {
      expect(new Set([...crowd.killed].map((id) => id.slice(0, 4)))).toEqual(new Set(['java', 'nest']));
      expect(crowd.killed.size).toBeGreaterThanOrEqual(4);
    });

    it.each(['plain', 'fair', 'rw'])(
      'both sides have had their turns where the lock of Java is %s',
      (kind) => {
        // How many is a matter of speed: `fairness` judges the order where there is one.
        const { java = 0, nest = 0 } = turnsOf(history, `:${kind}`);
        expect(java).toBeGreaterThan(0);
        expect(nest).toBeGreaterThan(0);
      },
    );

    it('nobody has starved', () => {
      expect(crowd.done.length).toBeGreaterThanOrEqual(SIDES.length * 3);
      // Plain locks keep no order on either side, so that no longest wait is promised.
      expect(Math.min(...crowd.done.map(({ turns }) => turns))).toBeGreaterThan(0);
    });

    it('nothing is left behind when all have gone home', async () => {
      for (const name of NAMES) expect(await stage.redis.hgetall(name)).toEqual({});
    });
  },
);
