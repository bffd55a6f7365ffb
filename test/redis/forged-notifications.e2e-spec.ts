import { randomBytes } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { ownRedis } from '../support/own-redis.js';
import { untilAborted } from '../support/lock-services.js';
import { until } from '#until';
const redis = ownRedis('forged');

const clientOf = (owner: string) => owner.replace(/:\d+$/, '');
/** @returns how many heard it */
const forge = (client: string, message: string | Buffer) =>
  redis.eyes.client.publish(`nest_lock_notify:${client}`, message);
const now = async () => Number((await redis.eyes.client.time())[0]) * 1000;

/** Whoever holds `key`, by its name in Redis. */
async function holderOf(key: string): Promise<string> {
  await until(async () => (await redis.eyes.holder(key)) !== undefined);
  return (await redis.eyes.holder(key)) as string;
}

describe('messages on the channel of a client that no script has written', () => {
  it('change nothing when they do not read exactly like one: broken, huge, binary, of other owners', async () => {
    const [one, two] = [redis.open(), redis.open()] as [LockService, LockService];
    let inside = 0;
    let most = 0;
    let done = 0;
    const work = async () => {
      most = Math.max(most, (inside += 1));
      await new Promise((resolve) => setTimeout(resolve, 1));
      inside -= 1;
      done += 1;
    };
    const traffic = Array.from({ length: 200 }, (_, i) => (i % 2 ? one : two).withLock('fuzzed', work));
    const owner = await holderOf('fuzzed');
    const client = clientOf(owner);
    const other = `${client.slice(0, -1)}${client.endsWith('0') ? '1' : '0'}:1`;
    const wicked = [
      '',
      'granted',
      `granted ${owner}`,
      `granted ${owner} 1 2 3 4 5 6`,
      `granted ${owner} -1 2 3 4 5`,
      `granted ${owner} 1e9 2 3 4 5`,
      `granted ${owner} 99999999999999999 2 3 4 5`,
      `lost ${owner} `,
      `lost ${owner}\n`,
      `lost ${other}`,
      `LOST ${owner}`,
      `look ${owner} 999999`,
      `wanted ${owner} x`,
      `granted ${other} 1 1000 ${await now()} 1000 0`,
      '__proto__',
      `lost ${client}:${'9'.repeat(1000)}`,
      'x'.repeat(8 * 2 ** 20),
      randomBytes(2 ** 20),
      Buffer.from([0, 255, 254, 0xc3, 0x28]),
    ];
    for (let round = 0; round < 3; round++) for (const it of wicked) await forge(client, it);
    await Promise.all(traffic);
    expect({ most, done }).toEqual({ most: 1, done: 200 });
  }, 30_000);

  it('can end a hold, as a message of loss is believed; the next owner is let in by the store alone', async () => {
    const [one, two] = [redis.open(), redis.open()];
    const lock = await one.acquire('ended');
    await redis.eyes.untilListening(2);
    const waiting = two.acquire('ended');
    await redis.eyes.untilQueued('ended', 1);
    await forge(clientOf(await holderOf('ended')), `lost ${await holderOf('ended')}`);
    await untilAborted(lock.signal);
    const next = await waiting;
    expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await Promise.all([lock.release(), next.release()]);
  });

  it('let no waiter in and move no token: a grant repeats a word that only its asker and the store know', async () => {
    const [one, two] = [redis.open(), redis.open()];
    const lock = await one.acquire('forged');
    await redis.eyes.untilListening(2);
    const waiting = two.acquire('forged');
    await redis.eyes.untilQueued('forged', 1);
    const [owner = ''] = await redis.eyes.queue('forged');
    for (const token of [Date.now() * 1000, 9_000_000_000_000_000]) {
      for (const word of ['', ' 0', ' word', ` ${'0'.repeat(16)}`]) {
        await forge(clientOf(owner), `granted ${owner} ${token} ${token} ${await now()} 60000 0${word}`);
      }
    }
    // Later on the same channel than all of them; what it grants is not theirs.
    await lock.release();
    const next = await waiting;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(next.fencingToken).toBeLessThan((Date.now() + 60_000) * 1000);
    await next.release();
    const after = await two.acquire('another');
    expect(after.fencingToken).toBeLessThan((Date.now() + 60_000) * 1000);
    await after.release();
  });

  it.each(['0', '1', '999999999'])(
    'let no process keep the lock to itself while another waits: wanted by %s',
    async (waiting) => {
      const [one, two] = [redis.open(), redis.open()] as [LockService, LockService];
      const key = `kept:${waiting}`;
      let isOver = false;
      const work = () => new Promise((resolve) => setTimeout(resolve, 2));
      let done = 0;
      const turn = async (): Promise<void> => {
        if (!isOver) await work();
        done += 1;
      };
      const calls = Array.from({ length: 600 }, () => one.withLock(key, turn));
      const owner = await holderOf(key);
      await redis.eyes.untilListening(2);
      const forging = (async () => {
        for (let of = owner; !isOver; of = (await redis.eyes.holder(key)) ?? of)
          await forge(clientOf(of), `wanted ${of} ${waiting}`);
      })();
      try {
        const lock = await two.acquire(key);
        // It comes between two of their turns, long before all 600 have had theirs.
        expect(done).toBeLessThan(300);
        await lock.release();
      } finally {
        isOver = true;
        await Promise.all([...calls, forging]);
      }
    },
  );

  it('cause no recheck', async () => {
    const [one, two] = [redis.open(), redis.open()];
    const lock = await one.acquire('looked');
    await redis.eyes.untilListening(2);
    const waiting = two.acquire('looked');
    await redis.eyes.untilQueued('looked', 1);
    const [owner = ''] = await redis.eyes.queue('looked');
    const looks = async () =>
      Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(await redis.eyes.client.info('commandstats'))?.[1]);
    const before = await looks();
    await Promise.all(Array.from({ length: 500 }, () => forge(clientOf(owner), `look ${owner} 0`)));
    await lock.release();
    await (await waiting).release();
    // Its own looks are one a second; each forged one would have been one more.
    expect((await looks()) - before).toBeLessThan(100);
  });
});
