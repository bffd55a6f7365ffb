import type { INestApplication } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startRedisServer, type RedisServer } from '#redis-server';
import { createApp } from '../../apps/seckill/src/create-app.js';
import { Database } from '../../apps/seckill/src/database.js';
import { startEmbeddedDatabase, type EmbeddedDatabase } from '../../apps/seckill/src/embedded-database.js';
import { readSettings } from '../../apps/seckill/src/settings.js';
import { NightlyReport } from '../../apps/seckill/src/shop/nightly-report.js';

describe('the nightly report of two instances', () => {
  let embedded: EmbeddedDatabase;
  let redis: RedisServer;
  let apps: readonly INestApplication[] = [];

  beforeAll(async () => {
    embedded = await startEmbeddedDatabase();
    redis = await startRedisServer();
    const settings = readSettings({ PORT: '0', DATABASE_URL: embedded.url, REDIS_URL: redis.url });
    apps = [await createApp(settings), await createApp(settings)];
  }, 60_000);
  afterAll(async () => {
    for (const app of apps) await app.close();
    await redis?.stop();
    await embedded?.close();
  });

  it('is planned for every night on each of them', () => {
    for (const app of apps) {
      const next = app.get(SchedulerRegistry).getCronJob('nightly report').nextDate();
      expect([next.hour, next.minute, next.second]).toEqual([3, 0, 0]);
    }
  });

  it('is made once, whether they are woken together or one when the other has finished', async () => {
    const make = (app: INestApplication) => app.get(NightlyReport).make();
    const together = await Promise.all(apps.map(make));
    expect(together.filter((report) => report !== undefined)).toEqual([{ orders: 0, oversold: 0 }]);
    const later = await Promise.all(apps.map(make));
    expect(later).toEqual([undefined, undefined]);
    expect(await apps[0]!.get(Database).query('SELECT FROM reports')).toHaveLength(1);
  });
});
