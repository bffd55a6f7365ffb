import { afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { until } from '#until';
import { ownRedis } from '../support/own-redis.js';
import { OPERATOR, startAdminApp } from './support/admin-app.js';
import { withoutList, withUnreadable } from './support/odd-lists.js';

interface Lock {
  readonly key: string;
}
interface Search {
  readonly locks: readonly Lock[];
  readonly isWhole: boolean;
  readonly note: string;
  lookOn(): Promise<ReadonlySet<string>>;
  readAgain(keys: readonly string[]): Promise<void>;
}

/** More than one page of the store looks through. */
const MANY = 25_000;
const redis = ownRedis('search');

describe('what the page for operators reads', () => {
  let SearchOf: new (prefix: string) => Search;
  let requests: string[];
  const { fetch } = globalThis;

  beforeAll(async () => {
    Object.assign(globalThis, { location: { pathname: '/locks' } });
    const source: string = '../../libs/distributed-lock/src/admin/page/find.js';
    ({ Search: SearchOf } = (await import(source)) as { Search: typeof SearchOf });
  });
  beforeEach(() => {
    requests = [];
  });
  afterEach(() => {
    globalThis.fetch = fetch;
  });

  async function open(options: Parameters<typeof startAdminApp>[0] = {}): Promise<LockService> {
    const { url, locks } = await startAdminApp(options);
    // The page asks by a path, as a text.
    globalThis.fetch = (path) => {
      requests.push(path as string);
      return fetch(url + (path as string), { headers: OPERATOR });
    };
    return locks;
  }
  const overRedis = () => open({ locks: { store: redisStore(redis.url), keyPrefix: 'shop:' } });
  const keysOf = ({ locks }: Search) => locks.map(({ key }) => key);
  const whole = async (search: Search): Promise<Search> => {
    do await search.lookOn();
    while (!search.isWhole);
    return search;
  };
  /** How often the server has executed a command since the last call. */
  const calls = async (): Promise<(command: string) => number> => {
    const stats = await redis.eyes.client.info('commandstats');
    await redis.eyes.client.call('CONFIG', 'RESETSTAT');
    return (command) => Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
  };

  it('has the one stuck lock among the counters of many finished ones, and costs the store some commands each time', async () => {
    const pipeline = redis.eyes.client.pipeline();
    for (let i = 0; i < MANY; i++)
      void pipeline.set(`nest_lock_token:{shop:done:${i}}`, '17', 'PX', 86_400_000);
    await pipeline.exec();
    const locks = await overRedis();
    await using _ = await locks.acquire('goods:42');
    const typed = new SearchOf('goods:42');
    await typed.lookOn();
    expect(keysOf(typed)).toEqual(['goods:42']);
    const search = await whole(new SearchOf(''));
    expect(keysOf(search)).toEqual(['goods:42']);
    await calls();
    for (let turn = 0; turn < 10; turn++) {
      const isRead = await search.lookOn();
      await search.readAgain(keysOf(search).filter((key) => !isRead.has(key)));
      expect(keysOf(search)).toEqual(['goods:42']);
    }
    const count = await calls();
    expect(count('evalsha')).toBeLessThanOrEqual(20);
    expect(count('scan')).toBeLessThanOrEqual(100);
  });

  it('drops a lock that has come free, and finds a new one in its next turn', async () => {
    const locks = await overRedis();
    const lock = await locks.acquire('goods:1');
    const search = await whole(new SearchOf('goods:'));
    await lock.release();
    await search.readAgain(['goods:1']);
    expect(keysOf(search)).toEqual([]);
    await using _ = await locks.acquire('goods:2');
    await until(async () => {
      await search.lookOn();
      return keysOf(search).join() === 'goods:2';
    });
  });

  it('is in order of age, the oldest first, and rows keep their places', async () => {
    const locks = await open();
    for (const key of ['c', 'a', 'b']) {
      await locks.acquire(key);
      const at = Date.now();
      await until(async () => Date.now() > at + 50);
    }
    const search = await whole(new SearchOf(''));
    for (let turn = 0; turn < 5; turn++) {
      expect(keysOf(search)).toEqual(['c', 'a', 'b']);
      await search.lookOn();
      await search.readAgain(['a', 'b', 'c']);
    }
  });

  it('names no more keys in one address than a proxy takes', async () => {
    const locks = await open();
    const keys = Array.from({ length: 40 }, (_, i) => `${i}:${'ü'.repeat(100)}`);
    await using _ = await locks.acquire(keys);
    const search = await whole(new SearchOf(''));
    await search.readAgain(keys);
    expect(search.locks).toHaveLength(40);
    expect(requests.length).toBeGreaterThan(2);
    expect(Math.max(...requests.map((address) => address.length))).toBeLessThan(5000);
  });

  it('says what a store says that cannot list, and has what this process holds', async () => {
    const locks = await open({ locks: { store: withoutList() } });
    await using _ = await locks.acquire('goods:42');
    const search = await whole(new SearchOf('goods:'));
    expect([keysOf(search), search.note]).toEqual([
      ['goods:42'],
      expect.stringContaining('cannot list its keys'),
    ]);
  });

  it('says of a key that cannot be read why', async () => {
    const locks = await open({
      locks: { store: withUnreadable({ key: 'odd', message: 'of another release' }) },
    });
    await using _ = await locks.acquire('goods:42');
    const search = await whole(new SearchOf(''));
    expect([keysOf(search), search.note]).toEqual([['goods:42'], 'Cannot be read: odd. of another release']);
  });
});
