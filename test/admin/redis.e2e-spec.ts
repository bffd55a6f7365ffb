import { describe, expect, it } from '@jest/globals';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { until } from '#until';
import { failureOf, untilAborted } from '../support/lock-services.js';
import { ownRedis } from '../support/own-redis.js';
import { ADAPTERS, releaseOf, startAdminApp } from './support/admin-app.js';

const redis = ownRedis('admin');

describe.each(ADAPTERS)('over Redis, on %s', (adapter) => {
  const start = (url: string) =>
    startAdminApp({
      adapter,
      admin: { canRelease: true },
      locks: { store: redisStore(url, { commandTimeoutMs: 500 }), keyPrefix: 'shop:' },
    });

  it('shows who holds a key in another process, and tells that holder of a release by force', async () => {
    const { askJson } = await start(redis.url);
    const other = redis.open({ application: 'importer', keyPrefix: 'shop:' });
    const next = redis.open({ keyPrefix: 'shop:' });
    const lock = await other.acquire('goods:42', { site: 'nightly import' });
    const waiting = next.acquire('goods:42', { waitMs: Infinity });
    const path = '/locks/api/lock?key=goods:42';
    await until(async () => {
      const shown = JSON.stringify(await askJson(path));
      return shown.includes('importer') && !shown.includes('"waiting":[]');
    });
    expect(await askJson(path)).toMatchObject({
      key: 'goods:42',
      holders: [{ application: 'importer', site: 'nightly import', process: process.pid }],
      waiting: [expect.any(String)],
    });
    const work = failureOf(lock.run(() => untilAborted(lock.signal).then(() => lock.assertHeld())));
    expect(await askJson('/locks/api/release', releaseOf('goods:42'))).toMatchObject({ answer: 'released' });
    expect(await work).toMatchObject({ code: 'LOCK_LOST' });
    await (await waiting).release();
  });

  it('answers 503 while Redis is away, with what is wrong and without a password', async () => {
    await redis.eyes.client.call('CONFIG', 'SET', 'requirepass', 'hush-hush');
    try {
      const { ask } = await start(redis.proxy.url.replace('//', '//:hush-hush@'));
      expect((await ask('/locks/api/locks')).status).toBe(200);
      await redis.proxy.close();
      const answer = await ask('/locks/api/locks');
      const text = await answer.text();
      expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1']);
      expect(JSON.parse(text)).toMatchObject({ error: { code: 'LOCK_STORE', message: expect.any(String) } });
      const about = await (await ask('/locks/api/about')).text();
      expect(text + about).not.toContain('hush-hush');
    } finally {
      await redis.eyes.client.call('CONFIG', 'SET', 'requirepass', '');
    }
  });
});
