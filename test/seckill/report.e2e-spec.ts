import type { INestApplication } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startRedisServer, type RedisServer } from '#redis-server';
import { readConfig } from '../../apps/seckill/src/config.js';
import { createApp } from '../../apps/seckill/src/create-app.js';
import { startDatabaseServer, type DatabaseServer } from '../../apps/seckill/src/demo/database-server.js';
import { NightlyReport } from '../../apps/seckill/src/report/nightly-report.js';
import { ReportRepository } from '../../apps/seckill/src/report/report.repository.js';

describe('the nightly report of two instances', () => {
  let server: DatabaseServer;
  let redis: RedisServer;
  let apps: readonly INestApplication[] = [];

  beforeAll(async () => {
    server = await startDatabaseServer();
    redis = await startRedisServer();
    const config = readConfig({ PORT: '0', DATABASE_URL: server.url, REDIS_URL: redis.url });
    apps = [await createApp(config), await createApp(config)];
  }, 60_000);
  afterAll(async () => {
    for (const app of apps) await app.close();
    await redis?.stop();
    await server?.close();
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
    expect(together.filter((report) => report !== undefined)).toHaveLength(1);
    const later = await Promise.all(apps.map(make));
    expect(later).toEqual([undefined, undefined]);
    expect(await apps[0]!.get(ReportRepository).latest()).toHaveLength(1);
  });
});
