import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ownRedis } from '../../../support/own-redis.js';
import { until } from '#until';
import { Worker } from './workers.js';

const PROCESSES = 4;
const CALLERS = 25;
const TURNS = 2000;

/** 1 when all have the same, 1/n when one has everything. */
function jainIndex(shares: number[]): number {
  const sum = shares.reduce((total, share) => total + share, 0);
  const squares = shares.reduce((total, share) => total + share * share, 0);
  return sum ** 2 / (shares.length * squares);
}

describe('4 processes with 25 callers each on one key', () => {
  const key = 'crowd';
  const redis = ownRedis('crowd');
  let workers: Worker[];
  let served: number[];

  beforeAll(async () => {
    workers = Array.from(
      { length: PROCESSES },
      () => new Worker({ role: 'crowd', url: redis.url, key, callers: CALLERS, turns: TURNS }),
    );
    await Promise.all(workers.map((worker) => worker.hear('ready')));
    await redis.eyes.client.set(`${key}:go`, '1');
    const done = await Promise.all(workers.map((worker) => worker.hear('done')));
    served = done.flatMap((told) => told.served as number[]);
  }, 60_000);
  afterAll(async () => {
    await Promise.all(workers.map((worker) => worker.kill()));
  });

  it('all are served, and about equally', () => {
    expect(served).toHaveLength(PROCESSES * CALLERS);
    expect(Math.min(...served)).toBeGreaterThan(0);
    expect(jainIndex(served)).toBeGreaterThanOrEqual(0.9);
  });

  it('the key goes from process to process in small slices', async () => {
    const order = await redis.eyes.client.lrange(`${key}:order`, '0', '-1');
    expect(order).toHaveLength(TURNS);
    const changes = order.filter((process, i) => i > 0 && process !== order[i - 1]).length;
    expect(changes).toBeGreaterThan(TURNS / 200);
  });

  it('never two are inside, and no update is lost', async () => {
    expect(workers.flatMap(({ told }) => told.filter(({ what }) => what === 'violation'))).toEqual([]);
    expect(served.reduce((total, turns) => total + turns, 0)).toBe(TURNS);
    expect(Number(await redis.eyes.client.get(`${key}:done`))).toBe(TURNS);
  });

  it('nothing is left of the queue', async () => {
    await until(async () => (await redis.eyes.remains(key)).length === 0);
    expect(await redis.eyes.remains(key)).toEqual([]);
  });
});
