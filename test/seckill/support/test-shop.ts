import { fileURLToPath } from 'node:url';
import { startRedisServer, type RedisServer } from '#redis-server';
import { openStage, type Stage } from '../../../apps/seckill/src/demo/stage.js';
import type { Instance } from '../../../apps/seckill/src/launch.js';
import { purchase } from '../../../apps/seckill/src/live/buyers.js';

const PROGRAM = fileURLToPath(new URL('../../../dist/apps/seckill/main.js', import.meta.url));

/** Processes of the app as built, with an embedded Postgres and a Redis of their own. */
export interface TestShop extends Stage {
  readonly instances: readonly Instance[];
  readonly urls: readonly string[];
  readonly redis: RedisServer;
}

export async function openTestShop(count: number, env: Record<string, string> = {}): Promise<TestShop> {
  const redis = await startRedisServer();
  const own = { ...process.env, PORT: '0', DATABASE_URL: '', REDIS_URL: redis.url, ...env };
  const stage = await openStage(count, own, PROGRAM).catch(async (error: unknown) => {
    await redis.stop();
    throw error;
  });
  const { instances } = stage.shop;
  return {
    ...stage,
    instances,
    urls: instances.map(({ url }) => url),
    redis,
    async close() {
      await stage.close();
      await redis.stop();
    },
  };
}

export function buyFrom(
  { url }: Instance,
  goodsId: number,
  userId: string,
  payMs = 0,
): ReturnType<typeof purchase> {
  return purchase(`${url}/goods/${goodsId}/purchase`, userId, payMs);
}

/** @param body sent as JSON */
export async function post(
  url: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<{ readonly status: number; readonly body: Readonly<Record<string, unknown>> }> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>) };
}
