import { afterEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockService } from 'nestjs-distributed-lock';
import type { RedisTarget } from 'nestjs-distributed-lock/redis';
import { startRedisCluster, startSentinelSet } from '#redis-topologies';
import { startRedisServer } from '#redis-server';
import { TcpProxy, type Link } from '#tcp-proxy';
import { until } from '#until';
import { closeServices, elapsed, openService } from '../../../support/lock-services.js';
import { ownServer } from '../../../support/own-server.js';
import { clusterTargetOf, LIBRARIES, sentinelTargetOf } from '../../../support/redis-library.js';

const COMMAND_MS = 400;
/** Some handshakes that fail one after the other, with pauses between them. */
const HEALS_WITHIN_MS = 10_000;
const NOTIFIED_MS = 80;
/** So many in a row that rechecks cannot have done it. */
const ROUNDS = 4;
const AS_USER = { username: 'locks', password: 'secret' } as const;

/** A connection is taken, carries its first `chunks` of requests or of replies, and then nothing for ever. */
interface Silence {
  readonly side: 'requests' | 'replies';
  readonly chunks: number;
}
const SILENCES = (['requests', 'replies'] as const).flatMap((side) =>
  [0, 1, 2, 3, 4, 5].map((chunks): Silence => ({ side, chunks })),
);

/** Proxies before all servers of a Redis, and what a service is given to connect through them. */
interface Way {
  readonly proxies: readonly TcpProxy[];
  readonly target: RedisTarget;
}

describe('a Redis that takes connections and goes silent in the middle of their handshake', () => {
  const proxies: TcpProxy[] = [];

  afterEach(async () => {
    await closeServices();
    await Promise.all(proxies.splice(0).map((proxy) => proxy.close()));
  });

  const silence = (link: Link, { side, chunks }: Silence): void => {
    let carried = 0;
    link[side].edit = (chunk) => {
      if (carried++ === chunks) link.vanish();
      return chunk;
    };
  };

  /** All connections that a service opens meet the silence, until it ends. Those that met it stay silent. */
  const stateAfter = async (way: Way, at: Silence): Promise<string> => {
    for (const proxy of way.proxies) proxy.onLink = (link) => silence(link, at);
    const key = `silent:${at.side}:${at.chunks}`;
    const [service, holder] = [1, 2].map(() => openService(way.target, { commandTimeoutMs: COMMAND_MS }));
    if (!service || !holder) throw new Error('There are two.');
    const early = await service.acquire(key, { waitMs: 3 * COMMAND_MS }).catch(() => undefined);
    for (const proxy of way.proxies) proxy.onLink = () => undefined;
    await early?.release();
    try {
      await service.withLock(key, { waitMs: HEALS_WITHIN_MS }, () => undefined);
    } catch (error) {
      return `refuses calls: ${(error as Error).message}`;
    }
    let inTime = 0;
    const isWell = async () => {
      inTime = (await isNotified(holder, service, key)) ? inTime + 1 : 0;
      return inTime === ROUNDS;
    };
    return until(isWell, HEALS_WITHIN_MS).then(
      () => 'well',
      (error: unknown) => `is not notified: ${String((error as Error).cause)}`,
    );
  };

  /** A waiter that is not subscribed rechecks every 250 ms. */
  const isNotified = async (holder: LockService, waiter: LockService, key: string): Promise<boolean> => {
    const lock = await holder.acquire(key, { waitMs: HEALS_WITHIN_MS });
    const next = waiter.acquire(key, { waitMs: HEALS_WITHIN_MS });
    await until(async () => (await holder.inspect(key))?.pending.length === 1);
    const waited = elapsed(next);
    await lock.release();
    await (await next).release();
    return (await waited) < NOTIFIED_MS;
  };

  /** @param atOnce how many of the silences are tried beside each other @returns those that it did not get over */
  const ailments = async (
    wayTo: () => Promise<Way>,
    { silences = SILENCES, atOnce = 6 } = {},
  ): Promise<readonly string[]> => {
    const states: string[] = [];
    for (let i = 0; i < silences.length; i += atOnce) {
      const some = silences.slice(i, i + atOnce).map(async (at) => {
        const state = await stateAfter(await wayTo(), at);
        return `${at.side}, after ${at.chunks}: ${state}`;
      });
      states.push(...(await Promise.all(some)));
    }
    return states.filter((state) => !state.endsWith(': well'));
  };

  const before = async (port: number): Promise<TcpProxy> => {
    const proxy = await TcpProxy.before(port);
    proxies.push(proxy);
    return proxy;
  };

  describe('alone', () => {
    const server = ownServer(() =>
      startRedisServer({ args: ['--user', 'locks', 'on', '>secret', '~*', '&*', '+@all'] }),
    );

    it('heals wherever it did', async () => {
      const found = await ailments(async () => {
        const proxy = await before(server.port);
        const target = { host: '127.0.0.1', port: proxy.port, ...AS_USER, db: 1, connectionName: 'locks' };
        return { proxies: [proxy], target };
      });
      expect(found).toEqual([]);
    }, 60_000);

    it('heals wherever it did, over a client of the application that speaks RESP2', async () => {
      const found = await ailments(async () => {
        const proxy = await before(server.port);
        const settings = { host: '127.0.0.1', port: proxy.port, ...AS_USER, protocol: 2 } as const;
        return { proxies: [proxy], target: new Redis({ ...settings, lazyConnect: true }) };
      });
      expect(found).toEqual([]);
    }, 60_000);
  });

  describe.each(LIBRARIES)('behind a Sentinel, by %s', (library) => {
    const set = ownServer(startSentinelSet);

    it('heals wherever it or the Sentinel did', async () => {
      const masterPort = await set.masterPort();
      const found = await ailments(async () => {
        const [sentinel, master] = [await before(set.sentinelPort), await before(masterPort)];
        const natMap = { [`127.0.0.1:${masterPort}`]: { host: '127.0.0.1', port: master.port } };
        const sentinels = [{ host: '127.0.0.1', port: sentinel.port }];
        const options = { ...set.options, sentinels, natMap };
        const target = sentinelTargetOf(library, options, { updateSentinels: false });
        return { proxies: [sentinel, master], target };
      });
      expect(found).toEqual([]);
    }, 60_000);
  });

  describe.each(LIBRARIES)('as a cluster, by %s', (library) => {
    const cluster = ownServer(() => startRedisCluster(3));

    it('heals wherever its nodes did', async () => {
      // A client opens many connections at once here, which a busy machine must serve in the time of a command.
      const few = { silences: SILENCES.filter(({ chunks }) => chunks < 4), atOnce: 1 };
      const found = await ailments(async () => {
        const nodes = await Promise.all(cluster.nodes.map(({ port }) => before(port)));
        const places = nodes.map(({ port }) => ({ host: '127.0.0.1', port }));
        const natMap = Object.fromEntries(
          cluster.nodes.map(({ port }, i) => [`127.0.0.1:${port}`, places[i] as (typeof places)[number]]),
        );
        return { proxies: nodes, target: clusterTargetOf(library, { nodes: places, natMap }) };
      }, few);
      expect(found).toEqual([]);
    }, 90_000);
  });
});
