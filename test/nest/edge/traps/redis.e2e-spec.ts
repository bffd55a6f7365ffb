import { expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-distributed-lock';
import { redisStore, type RedisTarget } from 'nestjs-distributed-lock/redis';
import { Redis } from 'ioredis';
import { fresh } from './fresh.js';

@Injectable()
class Till {
  @Locked('till', { waitMs: 200 })
  async open(): Promise<string> {
    return 'open';
  }
}

const start = async (target: RedisTarget) =>
  (await fresh({ providers: [Till], options: { store: redisStore(target) } })).app;

it('an application boots, answers and closes while Redis is down', async () => {
  const app = await start('redis://127.0.0.1:1');
  await expect(app.get(Till).open()).rejects.toMatchObject({ code: 'LOCK_STORE' });
  await app.close();
});

it('an application leaves the client alone that it has given, also at its end', async () => {
  const client = new Redis(String(process.env['REDIS_URL']));
  const app = await start(client);
  await app.get(Till).open();
  await app.close();
  expect(client.status).toBe('ready');
  expect(await client.ping()).toBe('PONG');
  client.disconnect();
});
