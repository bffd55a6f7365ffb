import { describe, expect, it } from '@jest/globals';
import { ownRedis } from '../../support/own-redis.js';

describe('tokens that are shared with Java’s fenced lock', () => {
  const redis = ownRedis('shared');
  const counter = () => `redisson_lock_token:{${redis.key}}`;

  /** With each acquire Redisson's fenced lock counts one up. */
  const takeInJava = () => redis.eyes.client.incr(counter());
  const open = () => redis.open({ sharedTokens: true });
  const growing = (tokens: readonly number[]) => [...new Set(tokens)].sort((a, b) => a - b);

  it('grow with each grant, whichever side it is of', async () => {
    const [one, two] = [open(), open()];
    const tokens: number[] = [];
    for (let turn = 0; turn < 5; turn++) {
      for (const service of [one, two]) {
        tokens.push(await takeInJava());
        tokens.push(await service.withLock(redis.key, ({ fencingToken }) => fencingToken));
      }
    }
    expect(tokens).toEqual(growing(tokens));
  });

  it('grow over callers of one process that passed the lock on, and over several keys at once', async () => {
    const service = open();
    const first = await service.acquire(redis.key);
    const calls = Array.from({ length: 50 }, () =>
      service.withLock(redis.key, ({ fencingToken }) => fencingToken),
    );
    await first.release();
    const tokens = [first.fencingToken, ...(await Promise.all(calls)), await takeInJava()];
    const both = await service.acquire([redis.key, `${redis.key}:other`]);
    tokens.push(both.tokenOf(redis.key));
    await both.release();
    tokens.push(await takeInJava());
    expect(tokens).toEqual(growing(tokens));
  });

  it('grow over a hand-off to a process that waits', async () => {
    const [one, two] = [open(), open()];
    const held = await one.acquire(redis.key);
    const next = two.acquire(redis.key, { fair: true });
    await redis.eyes.untilQueued(redis.key, 1);
    await held.release();
    const tokens = [held.fencingToken, (await next).fencingToken];
    await (await next).release();
    tokens.push(await takeInJava());
    expect(tokens).toEqual(growing(tokens));
  });

  it('go on from those that Java has counted up to, also ahead of the clock', async () => {
    const ahead = 1000 * (Date.now() + 86_400_000);
    await redis.eyes.client.set(counter(), ahead);
    expect(await open().withLock(redis.key, ({ fencingToken }) => fencingToken)).toBe(ahead + 1);
  });

  it('are left alone without the option', async () => {
    await takeInJava();
    await redis.open().withLock(redis.key, () => undefined);
    expect(await redis.eyes.client.get(counter())).toBe('1');
  });
});
