import { census } from '../measure/census.mjs';
import { HOW } from '../report/how.mjs';
import { SCENARIOS } from '../scenarios/index.mjs';

const NETWORK_MS = 1;

/** @type {import('./store.d.mts').BenchedStore} */
export const redis = {
  id: 'redis',
  name: 'Redis',
  how: HOW,
  brief: {
    serial: [3, 1],
    spread: [3, 1],
    'spread-new': [3, 1],
    hot4: [3, 2, 1],
    'hot4-1ms': [3, 2, 1],
    hop: [2, 1],
    entities: [2, 2],
    feedback: [2, 2],
    hold: [1, 1],
    crowd: [1, 0],
    handler: [3, 0],
  },
  scenarios: SCENARIOS,
  async open() {
    const { startRedisServer } = await import('#redis-server');
    const { RedisObserver } = await import('../measure/redis-observer.mjs');
    const { startDelayProxy } = await import('../measure/delay-proxy.mjs');
    const server = await startRedisServer();
    const observer = new RedisObserver(server.url);
    const proxy = await startDelayProxy(server.url, NETWORK_MS);
    /** @type {Map<string, Promise<Map<string, number>>>} */
    const shares = new Map();
    return {
      url: server.url,
      slowUrl: proxy.url,
      observer,
      sharesOf({ id, command }) {
        if (!shares.has(id)) shares.set(id, census(observer, command, server.url, !id.startsWith('floor')));
        return shares.get(id);
      },
      async close() {
        proxy.close();
        observer.close();
        await server.stop();
      },
    };
  },
};
