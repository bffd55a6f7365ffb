import { beforeEach, describe, expect, it } from '@jest/globals';
import type { LockPage, LockService } from 'nestjs-distributed-lock';
import { ownRedis } from '../../support/own-redis.js';

const JAVA = 'b2b1a0d2-7c1f-4a8e-9d3a-000000000001';
/** More than one page looks through. */
const MANY = 12_000;

const redis = ownRedis('list');

/** All pages of a listing. */
async function allPages(locks: LockService, prefix = ''): Promise<readonly LockPage[]> {
  const pages: LockPage[] = [];
  do pages.push(await locks.list({ prefix, cursor: pages.at(-1)?.cursor }));
  while (pages.at(-1)?.cursor !== undefined);
  return pages;
}

async function allKeys(locks: LockService, prefix = ''): Promise<readonly string[]> {
  const pages = await allPages(locks, prefix);
  expect(pages.flatMap(({ unreadable }) => unreadable)).toEqual([]);
  return [...new Set(pages.flatMap(({ entries }) => entries.map(({ key }) => key)))].sort();
}

/** How often the server has executed a command since the last call. */
async function calls(): Promise<(command: string) => number> {
  const stats = await redis.eyes.client.info('commandstats');
  await redis.eyes.client.call('CONFIG', 'RESETSTAT');
  return (command) => Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}

async function write(name: (i: number) => string, command: (...args: string[]) => readonly string[]) {
  const pipeline = redis.eyes.client.pipeline();
  for (let i = 0; i < MANY; i++) {
    const [word = '', ...args] = command(name(i));
    void pipeline.call(word, ...args);
  }
  await pipeline.exec();
}

describe('a list of the locks in Redis', () => {
  beforeEach(async () => {
    await redis.eyes.client.flushall();
  });

  it('inspects what is held, and none of the locks that have left a counter of tokens', async () => {
    const locks = redis.open({ keyPrefix: `${redis.key}:` });
    await write(
      (i) => `nest_lock_token:{${redis.key}:done:${i}}`,
      (name) => ['SET', name, '1790000000000000', 'PX', '86400000'],
    );
    await using _ = await locks.acquire('stuck');
    await calls();
    expect(await allKeys(locks)).toEqual(['stuck']);
    const count = await calls();
    expect(count('evalsha')).toBeLessThanOrEqual(2);
    expect(count('scan')).toBeLessThanOrEqual(2 * (MANY / 1000 + 2));
    expect(count('hlen') + count('type') + count('exists')).toBeLessThanOrEqual(5);
  });

  it('has on its first page the key that was asked for in full, wherever the scan of the server would find it', async () => {
    const locks = redis.open({ keyPrefix: `${redis.key}:` });
    await write(
      (i) => `${redis.key}:data:${i}`,
      (name) => ['SET', name, '1'],
    );
    const keys = Array.from({ length: 5 }, (_, i) => `stuck:${i}`);
    await using _ = await locks.acquire(keys);
    for (const key of keys) expect((await locks.list({ prefix: key })).entries).toMatchObject([{ key }]);
    await calls();
    await locks.list({ prefix: 'stuck:0' });
    const count = await calls();
    expect([count('evalsha'), count('scan') <= 10]).toEqual([1, true]);
  });

  it('looks at a hash of the application by two short commands, at no more than some thousands for a page, and leaves it out', async () => {
    const locks = redis.open({ keyPrefix: `${redis.key}:` });
    await write(
      (i) => `${redis.key}:data:${i}`,
      (name) => ['HSET', name, 'mode', 'dark', 'stock', '3'],
    );
    const { client } = redis.eyes;
    await client.hset(`${redis.key}:one field`, 'name', 'chair');
    await client.hset(`${redis.key}:reads`, { mode: 'read', changedAt: 1 });
    await client.set(`${redis.key}:text`, 'chair');
    await client.zadd(`{${redis.key}:text}:timeout`, 1, 'chair');
    await using _ = await locks.acquire('stuck');
    await calls();
    await locks.list();
    const count = await calls();
    expect(count('hlen')).toBeLessThanOrEqual(3500);
    expect(await allKeys(locks)).toEqual(['stuck']);
    expect(await allKeys(locks, 'text')).toEqual([]);
    expect(await allKeys(locks, 'one field')).toEqual([]);
  });

  it('has the locks that only a service of another library holds, of each kind', async () => {
    const locks = redis.open({ keyPrefix: `${redis.key}:` });
    const { client } = redis.eyes;
    const name = (key: string) => `${redis.key}:${key}`;
    await client.hset(name('plain'), `${JAVA}:71`, 2);
    await client.hset(name('write'), { mode: 'write', [`${JAVA}:71:write`]: 1 });
    await client.hset(name('read'), { mode: 'read', [`${JAVA}:71`]: 1 });
    await client.set(`{${name('read')}}:${JAVA}:71:rwlock_timeout:1`, 1, 'PX', 60_000);
    for (const key of ['plain', 'write', 'read']) await client.pexpire(name(key), 60_000);
    for (const key of ['permits', '{x}']) {
      await client.set(name(key), 4);
      const set = name(key).includes('{') ? name(key) : `{${name(key)}}`;
      await client.zadd(`${set}:timeout`, Date.now() + 60_000, 'c0ffee00c0ffee00c0ffee00c0ffee00');
    }
    expect(await allKeys(locks)).toEqual(['permits', 'plain', 'read', 'write', '{x}'].sort());
    const [plain] = (await locks.list({ prefix: 'plain' })).entries;
    expect(plain).toMatchObject({ mode: 'exclusive', holders: [`${JAVA}:71`] });
  });

  it('has a key that is free and waited for', async () => {
    const locks = redis.open({ keyPrefix: `${redis.key}:` });
    await locks.acquire('goods');
    const waiting = redis.open({ keyPrefix: `${redis.key}:` }).acquire('goods', { waitMs: Infinity });
    await redis.eyes.untilQueued(`${redis.key}:goods`, 1);
    await redis.eyes.client.del(`${redis.key}:goods`);
    const [entry] = (await locks.list()).entries;
    expect(entry).toMatchObject({ key: 'goods' });
    await (await waiting).release();
  });

  it('refuses what is no cursor of it, and begins again at one of another run of the server', async () => {
    const locks = redis.open({ keyPrefix: `${redis.key}:` });
    await using _ = await locks.acquire('stuck');
    for (const cursor of ['', '0', '1:17', '00000000.x.0', 'NaN']) {
      await expect(locks.list({ cursor })).rejects.toMatchObject({ code: 'LOCK_CONFIGURATION' });
    }
    const { entries } = await locks.list({ cursor: '00000000.1.17' });
    expect(entries).toMatchObject([{ key: 'stuck' }]);
  });
});
