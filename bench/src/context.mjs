import { startRedisServer } from '#redis-server';
import { census } from './measure/census.mjs';
import { startDelayProxy } from './measure/delay-proxy.mjs';
import { Observer } from './measure/observer.mjs';

const NETWORK_MS = 1;

/**
 * Shared by all scenarios: one server, the way to it over a slower network, and its observer.
 *
 * @typedef {Awaited<ReturnType<typeof openContext>>} Context
 */

/** @param {{ ms: number }} options how long each measured run takes */
export async function openContext({ ms }) {
  const server = await startRedisServer();
  const observer = new Observer(server.url);
  const proxy = await startDelayProxy(server.url, NETWORK_MS);
  /** @type {Map<string, Promise<Map<string, number>>>} */
  const shares = new Map();
  return {
    url: server.url,
    slowUrl: proxy.url,
    observer,
    ms,
    /** @param {import('../contestants/index.mjs').Entrant} entrant */
    sharesOf({ id, command }) {
      if (!shares.has(id)) shares.set(id, census(observer, command, server.url, id !== 'floor'));
      return shares.get(id);
    },
    async close() {
      proxy.close();
      observer.close();
      await server.stop();
    },
  };
}
