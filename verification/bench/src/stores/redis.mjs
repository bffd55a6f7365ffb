import { census } from '../measure/census.mjs';
import { HOW } from '../report/how.mjs';
import { SCENARIOS } from '../scenarios/index.mjs';

const NETWORK_MS = 1;

/** @type {import('./store.d.mts').BenchedStore} */
export const redis = {
  id: 'redis',
  name: 'Redis',
  how: HOW,
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
