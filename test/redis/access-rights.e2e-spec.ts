import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import type { RedisTarget } from 'nestjs-distributed-lock/redis';
import { ownRedis } from '../support/own-redis.js';
import { closeServices, failureOf, openService } from '../support/lock-services.js';
import { startRedisCluster } from '#redis-topologies';
import { RedisEyes } from '../support/redis-eyes.js';
import { until } from '#until';
import { ownServer } from '../support/own-server.js';
import { clusterTargetOf, LIBRARIES } from '../support/redis-library.js';

const page = readFileSync(new URL('../../.github/SECURITY.md', import.meta.url), 'utf8');
const [single = [], more = []] = [...page.matchAll(/^ACL SETUSER locks (.+)$/gm)].map(([, words = '']) =>
  words.split(' '),
);
const cluster = [...single, ...more];
const rights = single.filter((word) => /^[~&+]/.test(word));
/** How long calls wait that a missing right keeps from their end: a busy machine needs longer to do the rest meanwhile. */
const WAITS_MS = [700, 5000];

/**
 * All that the store does, also beside a Java client; `eyes` do what strangers do. Whatever fails is of no interest: a
 * right that is missing shows in the server's own log of refusals.
 */
async function useAll(target: RedisTarget, eyes: RedisEyes, id: string, waitMs: number): Promise<void> {
  const keyPrefix = `lock:${id}:`;
  await eyes.client.script('FLUSH');
  const [one, two] = [0, 1].map(() => openService(target, { keyPrefix, waitMs, application: 'shop' })) as [
    LockService,
    LockService,
  ];
  const soon = async (condition: () => Promise<boolean>) => {
    const deadline = performance.now() + waitMs;
    await until(async () => (await condition()) || performance.now() > deadline);
  };
  /** Whoever does not hear yet does less: it asks no connection whether it lives, and leaves no channel. */
  const untilHearing = async (service: LockService, key: string) => {
    const lock = await service.acquire(key).catch(() => undefined);
    const channel = `nest_lock_notify:${(await eyes.holder(keyPrefix + key))?.replace(/:\d+$/, '')}`;
    if (lock) await soon(async () => Number((await eyes.client.pubsub('NUMSUB', channel))[1]) > 0);
    await lock?.release();
  };
  const name = (key: string) => keyPrefix + key;
  const inLine = (key: string) => soon(async () => (await eyes.queue(name(key))).length > 0);
  await Promise.all([one, two].map((it, i) => untilHearing(it, `heard-${i}`)));
  await eyes.client.script('FLUSH');
  const handed = one.withLock('handed', async () => {
    const next = two.withLock('handed', () => 'next');
    await inLine('handed');
    return [next.catch(() => 'failed')];
  });
  await Promise.allSettled([handed.then(([next]) => next)]);
  const taken = one.withLock('taken', { leaseMs: 5000 }, async (lock) => {
    await lock.extend(5000);
    await two.inspect('taken');
    await two.list();
    await two.forceRelease('taken');
  });
  const shared = one.withLock('rw', { mode: 'exclusive' }, async () => {
    const readers = [one, two].map((it) => it.withLock('rw', { mode: 'shared' }, () => 'read'));
    await inLine('rw');
    return [Promise.allSettled(readers)];
  });
  const counted = one.withLock('permits', { permits: 2 }, async () => {
    const more = [one, two].map((it) => it.withLock('permits', { permits: 2, weight: 2 }, () => 'both'));
    await inLine('permits');
    return [Promise.allSettled(more)];
  });
  const reading = one.withLock('read', { mode: 'shared' }, async () => {
    const writer = two.withLock('read', { mode: 'exclusive' }, () => 'wrote');
    await inLine('read');
    return [Promise.allSettled([writer])];
  });
  // A Java client's permit that ran out.
  await eyes.client.set(name('over'), '0');
  await eyes.client.zadd(`{${name('over')}}:timeout`, 1, 'gone');
  const over = one.withLock('over', { permits: 1 }, () => 'mine');
  const several = two.withLock(['{s}:a', '{s}:b'], () => 'several');
  await Promise.allSettled([
    shared.then(([it]) => it),
    counted.then(([it]) => it),
    reading.then(([it]) => it),
    several,
    over,
  ]);
  await eyes.client.hset(name('java'), 'b2b1a0d2-7c1f-4a8e-9d3a-000000000001:1', '1');
  await eyes.client.pexpire(name('java'), 60_000);
  const behind = one.withLock('java', () => 'behind');
  await eyes.client.set(name('data'), 'no lock');
  const wrong = one.withLock('data', () => 'never');
  await inLine('java');
  await eyes.client.del(name('java'));
  await eyes.client.publish(`redisson_lock__channel:{${name('java')}}`, '0');
  await Promise.allSettled([taken, behind, wrong]);
  await Promise.all([one.close(), two.close()]);
}

type Refusal = Readonly<Record<string, unknown>>;

/** What the server has refused to a user, as `command get`, `key lock:a`. */
async function refusalsOf(eyes: RedisEyes, user: string): Promise<string[]> {
  const log = (await eyes.client.call('ACL', 'LOG', '1000')) as unknown[][];
  const entries = log.map((it): Refusal => {
    return Object.fromEntries(it.flatMap((value, i) => (i % 2 === 0 ? [[value, it[i + 1]]] : [])));
  });
  return entries
    .filter((it) => it['username'] === user)
    .map(({ reason, object }) => `${String(reason)} ${String(object)}`);
}

const setUser = (eyes: RedisEyes, user: string, words: readonly string[]) =>
  eyes.client.call('ACL', 'SETUSER', user, ...words);

afterEach(closeServices);

describe('a Redis user with exactly the rights of SECURITY.md', () => {
  const redis = ownRedis('rights', { args: ['--acllog-max-len', '1000'] });
  const as = (username: string) => ({
    host: '127.0.0.1',
    port: redis.server.port,
    username,
    password: 'secret',
  });

  it('is refused nothing', async () => {
    await setUser(redis.eyes, 'all', single);
    await useAll(as('all'), redis.eyes, 'all', WAITS_MS[1]!);
    expect(await refusalsOf(redis.eyes, 'all')).toEqual([]);
  }, 30_000);

  it('is refused other keys, other channels and all administration', async () => {
    await setUser(redis.eyes, 'narrow', single);
    const client = new RedisEyes(redis.url.replace('//', '//narrow:secret@'));
    try {
      const wishes = ['GET users:1', 'PUBLISH news hello', 'KEYS *', 'FLUSHALL', 'CONFIG GET *', 'ACL LIST'];
      for (const wish of wishes) {
        const [command = '', ...args] = wish.split(' ');
        await expect(client.client.call(command, ...args)).rejects.toThrow('NOPERM');
      }
    } finally {
      client.close();
    }
  });

  it('would miss each of them', async () => {
    const warned = jest.spyOn(console, 'warn').mockReturnValue(undefined); // ioredis, without INFO
    const missing = async (right: string, waitMs: number) => {
      const user = `without-${right.replace(/\W/g, '-')}-${waitMs}`;
      await setUser(
        redis.eyes,
        user,
        single.filter((word) => word !== right),
      );
      await useAll(as(user), redis.eyes, user, waitMs);
      return (await refusalsOf(redis.eyes, user)).length > 0 ? [] : [right];
    };
    let needless: string[] = [];
    // For scripts that the server does not know: alone, as all the others would teach it.
    const teaching = ['+eval', '+script|load'];
    const others = rights.filter((right) => !teaching.includes(right));
    for (const some of [...teaching.map((right) => [right]), others]) {
      needless.push(...(await Promise.all(some.map((right) => missing(right, WAITS_MS[0]!)))).flat());
    }
    for (const waitMs of WAITS_MS.slice(1)) {
      const again: string[] = [];
      for (const right of needless) again.push(...(await missing(right, waitMs)));
      needless = again;
    }
    warned.mockRestore();
    expect(needless).toEqual([]);
  }, 120_000);
});

describe.each(LIBRARIES)('a user of a cluster by %s with exactly the rights of SECURITY.md', (library) => {
  const servers = ownServer(startRedisCluster);
  const eyes: RedisEyes[] = [];

  beforeAll(() => {
    eyes.push(...servers.servers.map(({ url }) => new RedisEyes(url)));
  });
  afterAll(() => {
    for (const it of eyes) it.close();
  });

  it('is refused nothing', async () => {
    for (const it of eyes) await setUser(it, 'all', cluster);
    const target = clusterTargetOf(library, { nodes: servers.nodes, username: 'all', password: 'secret' });
    const keyPrefix = 'lock:';
    const [one, two] = [openService(target, { keyPrefix }), openService(target, { keyPrefix })];
    await one.withLock('handed', async () => {
      void two.withLock('handed', () => 'next').catch(() => undefined);
      await until(async () => (await two.inspect('handed'))?.pending.length === 1);
    });
    await two
      .withLock('handed', async () => {
        await one.forceRelease('handed');
      })
      .catch(() => undefined);
    const refused = await Promise.all(eyes.map((it) => refusalsOf(it, 'all')));
    expect(refused.flat()).toEqual([]);
  }, 60_000);

  it.each(['+hset', '~nest_lock_*lock:*', '+evalsha'])(
    'without %s is told all that it needs',
    async (word) => {
      const words = cluster.filter((it) => it !== word);
      for (const it of eyes) await setUser(it, 'short', words);
      const login = { username: 'short', password: 'secret' };
      const target = clusterTargetOf(library, { nodes: servers.nodes, ...login });
      const service = openService(target, { keyPrefix: 'lock:' });
      let failure: unknown;
      await until(async () => {
        failure = await failureOf(service.tryAcquire('k').then((lock) => lock?.release()));
        return String(failure).includes('ACL SETUSER');
      });
      const needed = cluster.filter((it) => /^[~&+]/.test(it)).toSorted();
      const [user, ...told] = String(failure).split('ACL SETUSER ')[1]?.split(' ') ?? [];
      expect([user, told.toSorted()]).toEqual(['short', needed]);
    },
    60_000,
  );
});
