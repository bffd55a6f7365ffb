import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { LockKeyError, LockNotHeldError } from 'nestjs-distributed-lock';
import { TestLocks } from 'nestjs-distributed-lock/testing';
import { fencedRedis, StaleTokenError, type FencedRedis, type Fence } from 'nestjs-distributed-lock/guard';
import { startRedisServer, type RedisServer } from '#redis-server';
import { createClient, createCluster, createSentinel, RESP_TYPES } from 'redis';
import { closeServices, failureOf, openService } from '../support/lock-services.js';
import { LIBRARIES } from '../support/redis-library.js';
import { startRedisCluster, startSentinelSet, type RedisCluster } from '#redis-topologies';

const at = (token: number): Fence => ({ key: 'goods:7', fencingToken: 1_795_237_040_328_412 + token });

describe.each(LIBRARIES)('fenced writes to Redis, by %s', (library) => {
  let server: RedisServer;
  let redis: Redis;
  let nodeRedis: ReturnType<typeof createClient>;
  let fenced: FencedRedis;

  beforeAll(async () => {
    server = await startRedisServer();
    redis = new Redis(server.url);
    nodeRedis = createClient({ url: server.url });
    await nodeRedis.connect();
    fenced = library === 'ioredis' ? fencedRedis(redis) : fencedRedis(nodeRedis);
  }, 60_000);
  afterAll(async () => {
    await closeServices();
    redis?.disconnect();
    nodeRedis?.destroy();
    await server?.stop();
  });

  it('refuse whoever comes with a smaller token than the key has seen, and leave the value', async () => {
    await fenced.set('stock:1', 'new', at(2));
    const error = await failureOf(fenced.set('stock:1', 'old', at(1)));
    expect(error).toBeInstanceOf(StaleTokenError);
    const [tokenOffered, tokenSeen] = [at(1).fencingToken, at(2).fencingToken];
    expect(error).toMatchObject({ key: 'goods:7', tokenOffered, tokenSeen });
    expect(await redis.get('stock:1')).toBe('new');
  });

  it('refuse from the check on, before anything is written', async () => {
    await fenced.check('stock:2', at(2));
    await expect(fenced.set('stock:2', 'old', at(1))).rejects.toThrow(StaleTokenError);
    await expect(fenced.check('stock:2', at(1))).rejects.toThrow(StaleTokenError);
    await fenced.set('stock:2', 'own', at(2));
    expect(await redis.get('stock:2')).toBe('own');
  });

  it("with nested: 'refuse' are for a call that has its lock alone", async () => {
    await using locks = new TestLocks();
    const alone = fencedRedis(library === 'ioredis' ? redis : nodeRedis, { nested: 'refuse' });
    await locks.withLock('nested', async (outer) => {
      await alone.set('stock:nested', 'outer', outer);
      await locks.withLock('nested', async (inner) => {
        for (const lock of [inner, outer]) {
          expect(await failureOf(alone.set('stock:nested', 'shared', lock))).toBeInstanceOf(LockNotHeldError);
          expect(await failureOf(alone.check('stock:nested', lock))).toBeInstanceOf(LockNotHeldError);
        }
        await fenced.set('stock:nested', 'allowed', inner);
      });
      await alone.check('stock:nested', outer);
    });
    expect(await redis.get('stock:nested')).toBe('allowed');
    await expect(alone.set('stock:nested', 'told', at(1))).rejects.toThrow(
      'needs the Lock of "goods:7" itself',
    );
  });

  it('tell tokens apart that differ in the last of sixteen digits', async () => {
    const largest = { key: 'k', fencingToken: Number.MAX_SAFE_INTEGER };
    await fenced.check('stock:3', largest);
    const error = await failureOf(
      fenced.check('stock:3', { ...largest, fencingToken: largest.fencingToken - 1 }),
    );
    expect(error).toMatchObject({ tokenSeen: Number.MAX_SAFE_INTEGER });
  });

  it('are any command on the key, with its reply', async () => {
    expect(await fenced.hset('goods:4', { stock: 7, name: Buffer.from('lamp') }, at(1))).toBe(2);
    expect(await fenced.call('HINCRBY', 'goods:4', ['stock', -1], at(1))).toBe(6);
    expect(await fenced.call('HGET', 'goods:4', ['none'], at(1))).toBeNull();
    expect(await fenced.call('DEL', 'goods:4', [], at(2))).toBe(1);
    await expect(fenced.call('HSET', 'goods:4', ['stock', 1], at(1))).rejects.toThrow(StaleTokenError);
    expect(await redis.exists('goods:4')).toBe(0);
  });

  it.each([3499, 3500, 3501, 5000, 10_000])('are of as many as %d fields at once', async (count) => {
    const fields = Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, i]));
    const key = `goods:many:${count}`;
    expect(await fenced.hset(key, fields, at(1))).toBe(count);
    expect(await redis.hlen(key)).toBe(count);
    expect(await redis.hget(key, `f${count - 1}`)).toBe(String(count - 1));
  });

  it('raise no fence for more words than a script may pass on', async () => {
    const words = Array.from({ length: 7001 }, (_, i) => i);
    const error = await failureOf(fenced.call('SADD', 'set:1', words, at(2)));
    expect(error).toMatchObject({
      code: 'LOCK_CONFIGURATION',
      message: expect.stringContaining('7001 words'),
    });
    expect(await fenced.call('SADD', 'set:1', words.slice(1), at(1))).toBe(7000);
    const fields = Object.fromEntries(Array.from({ length: 10_001 }, (_, i) => [i, i]));
    await expect(fenced.hset('set:2', fields, at(2))).rejects.toThrow('20002 words');
  });

  it('refuse a smaller token, too, if the client gives numbers as text', async () => {
    const texting =
      library === 'ioredis'
        ? new Redis(server.url, { stringNumbers: true })
        : nodeRedis.withTypeMapping({ [RESP_TYPES.NUMBER]: String });
    const own = fencedRedis(texting);
    await own.set('stock:text', 'new', at(2));
    await expect(own.set('stock:text', 'old', at(1))).rejects.toThrow(StaleTokenError);
    await expect(own.check('stock:text', at(1))).rejects.toThrow(StaleTokenError);
    if (texting instanceof Redis) texting.disconnect();
  });

  it('tell what the server says against the command itself', async () => {
    await fenced.set('stock:5', 'text', at(1));
    await expect(fenced.hset('stock:5', { a: 1 }, at(1))).rejects.toThrow('WRONGTYPE');
  });

  it('forget a token after keepMs without a new one, and never with Infinity', async () => {
    await fencedRedis(redis, { keepMs: 60_000 }).check('stock:6', at(1));
    await fencedRedis(redis, { keepMs: Infinity }).check('stock:7', at(1));
    expect(await redis.pttl('nest_lock_fence:{stock:6}')).toBeGreaterThan(50_000);
    expect(await redis.pttl('nest_lock_fence:{stock:7}')).toBe(-1);
    expect(() => fencedRedis(redis, { keepMs: 0 })).toThrow('keepMs must be 1 ms or more');
    await expect(failureOf(fenced.check('stock:6', { key: 'k', fencingToken: NaN }))).resolves.toMatchObject({
      code: 'LOCK_CONFIGURATION',
    });
  });

  it('refuse a holder whose lock was taken and given to another', async () => {
    const locks = openService(server.url, { watchdogTimeoutMs: 2000 });
    const first = await locks.acquire('goods:8', { leaseMs: 60_000 });
    await locks.forceRelease('goods:8');
    const second = await locks.acquire('goods:8');
    await fenced.set('stock:8', 'second', second);
    await expect(fenced.set('stock:8', 'first', first)).rejects.toThrow(StaleTokenError);
    await Promise.all([first.release(), second.release()]);
  });
});

const KEYS = ['plain', '{tag}:a', 'a:{tag}', 'open{brace', '{a}{b}', 'ключ'];

describe('fenced writes to a cluster', () => {
  let servers: RedisCluster;
  let cluster: Cluster;

  beforeAll(async () => {
    servers = await startRedisCluster();
    cluster = new Cluster([...servers.nodes]);
  }, 60_000);
  afterAll(async () => {
    cluster?.disconnect();
    await servers?.stop();
  });

  it.each(KEYS)('keep the fence of "%s" in the slot of its key', async (key) => {
    const fenced = fencedRedis(cluster);
    await fenced.set(key, 'new', at(2));
    await expect(fenced.set(key, 'old', at(1))).rejects.toThrow(StaleTokenError);
    expect(await cluster.get(key)).toBe('new');
  });

  it.each(
    ['app:', '{app}:', 'open{brace', 'both}{'].flatMap((prefix) => KEYS.map((key) => [prefix, key] as const)),
  )(
    'keep the fence in the slot of its key behind the keyPrefix "%s" of the client, or refuse the key: "%s"',
    async (keyPrefix, key) => {
      const prefixed = new Cluster([...servers.nodes], { keyPrefix, lazyConnect: true });
      const fenced = fencedRedis(prefixed);
      const outcome = await fenced.set(key, 'new', at(2)).then(
        () => fenced.set(key, 'old', at(1)).catch((error: unknown) => error),
        (error: unknown) => error,
      );
      expect(outcome).toBeInstanceOf(keyPrefix.endsWith(':') ? StaleTokenError : LockKeyError);
      expect(await cluster.get(`${keyPrefix}${key}`)).toBe(keyPrefix.endsWith(':') ? 'new' : null);
      prefixed.disconnect();
    },
  );

  it.each(['', 'app:', '{app}:'])(
    'keep the fence in the slot of its key by node-redis, too, with the keyPrefix "%s"',
    async (keyPrefix) => {
      const rootNodes = servers.nodes.map((socket) => ({ socket }));
      const client = createCluster({ rootNodes, ...(keyPrefix && { keyPrefix }) });
      await client.connect();
      const fenced = fencedRedis(client);
      for (const key of KEYS) {
        await fenced.set(key, 'new', at(3));
        await expect(fenced.set(key, 'old', at(2))).rejects.toThrow(StaleTokenError);
        expect(await cluster.get(`${keyPrefix}${key}`)).toBe('new');
      }
      client.destroy();
    },
  );

  it('go on from the fence that was raised without a cluster under the same keyPrefix', async () => {
    const client = {
      eval: (...[, , , fence]: unknown[]) => Promise.resolve([1, fence]),
      options: { keyPrefix: 'app:' },
    };
    expect(await fencedRedis(client).call('GET', 'goods', [], at(1))).toBe('nest_lock_fence:{goods}');
  });

  it.each(['closing}', 'empty{}tag'])('refuse "%s", whose slot no other key can have', async (key) => {
    await expect(fencedRedis(cluster).set(key, 'x', at(1))).rejects.toThrow(LockKeyError);
  });
});

it('fenced writes by node-redis reach the master that Sentinels name', async () => {
  const set = await startSentinelSet();
  const { name, sentinels } = set.options;
  const client = createSentinel({ name, sentinelRootNodes: sentinels });
  client.on('error', () => undefined);
  await client.connect();
  const fenced = fencedRedis(client);
  await fenced.set('stock:1', 'new', at(2));
  await expect(fenced.set('stock:1', 'old', at(1))).rejects.toThrow(StaleTokenError);
  await client.destroy();
  await set.stop();
}, 60_000);
