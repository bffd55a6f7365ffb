import { Controller, Get, Param, Post } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { lockKey, type LockService } from 'nestjs-distributed-lock';
import {
  CurrentFence,
  Fenced,
  fencedRedis,
  FenceMemory,
  fencingHeaders,
  ProcessFences,
  type Fence,
} from 'nestjs-distributed-lock/guard';
import { startRedisServer, type RedisServer } from '#redis-server';
import { ADAPTERS, startApp, type StartedApp } from '../nest/integration/stage.js';

@Controller('goods')
class GoodsController {
  @Post(':id/ship')
  @Fenced(({ params }) => lockKey`goods:${params['id']!}`)
  ship(@Param('id') id: string, @CurrentFence() fence: Fence): object {
    return { id, fence };
  }

  @Post('any')
  @Fenced()
  any(@CurrentFence('b') fence: Fence): object {
    return fence;
  }

  @Get('open')
  open(): string {
    return 'open';
  }
}

const token = (n: number) => Date.now() * 1000 + n;

describe.each(ADAPTERS)('a handler behind @Fenced, on %s', (adapter) => {
  let server: StartedApp;
  let locks: LockService;

  beforeAll(async () => {
    const fences = { provide: FenceMemory, useValue: new ProcessFences() };
    server = await startApp(adapter, { controllers: [GoodsController], providers: [fences] });
    ({ locks } = server);
  });
  afterAll(() => server?.app.close());

  const ask = async (path: string, headers: Record<string, string>) => {
    const answer = await server.fetch(path, { method: 'POST', headers });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  };
  const ship = (id: number, headers: Record<string, string>) => ask(`/goods/${id}/ship`, headers);

  it('answers whoever holds the lock, and is given its key and token', async () => {
    await locks.withLock('goods:1', async (lock) => {
      const { status, body } = await ship(1, fencingHeaders(lock));
      expect(status).toBe(201);
      expect(body).toEqual({ id: '1', fence: { key: 'goods:1', fencingToken: lock.fencingToken } });
    });
  });

  it('answers 412 to a holder whose lock another has had since, and 201 to the other, however often', async () => {
    const late = await locks.withLock('goods:2', async (lock) => fencingHeaders(lock));
    const now = await locks.withLock('goods:2', async (lock) => fencingHeaders(lock));
    expect((await ship(2, now)).status).toBe(201);
    expect((await ship(2, now)).status).toBe(201);
    expect(await ship(2, late)).toMatchObject({ status: 412, body: { code: 'LOCK_FENCE_STALE' } });
  });

  it('answers 428 without headers, and to a token of another key', async () => {
    expect(await ship(3, {})).toMatchObject({ status: 428, body: { code: 'LOCK_FENCE_MISSING' } });
    const headers = await locks.withLock('goods:33', async (lock) => fencingHeaders(lock));
    expect((await ship(3, headers)).status).toBe(428);
    expect(await ask('/goods/any', {})).toMatchObject({ status: 428 });
  });

  it.each([
    ['no number', { 'fencing-key': 'goods:4', 'fencing-token': 'many' }],
    ['a fraction', { 'fencing-key': 'goods:4', 'fencing-token': '1.5' }],
    ['zero', { 'fencing-key': 'goods:4', 'fencing-token': '0' }],
    ['fewer tokens than keys', { 'fencing-key': 'goods:4, goods:5', 'fencing-token': '1' }],
    ['a key that is not encoded', { 'fencing-key': '%zz', 'fencing-token': '1' }],
    [
      'a token that the clock reaches in a year',
      { 'fencing-key': 'goods:4', 'fencing-token': String(token(3e13)) },
    ],
    ['a token beyond 2^53', { 'fencing-key': 'goods:4', 'fencing-token': '9999999999999999' }],
  ])('answers 400 to %s, and remembers nothing of it', async (_what, headers) => {
    expect(await ship(4, headers)).toMatchObject({ status: 400, body: { code: 'LOCK_FENCE_UNREADABLE' } });
    await locks.withLock('goods:4', async (lock) => {
      expect((await ship(4, fencingHeaders(lock))).status).toBe(201);
    });
  });

  it('takes several keys with the token of each, and keys of any letters', async () => {
    await locks.withLock(['a, ü', 'b'], async (lock) => {
      const { status, body } = await ask('/goods/any', fencingHeaders(lock));
      expect(status).toBe(201);
      expect(body).toEqual({ key: 'b', fencingToken: lock.tokenOf('b') });
    });
  });

  it('leaves other handlers alone', async () => {
    expect((await server.fetch('/goods/open')).status).toBe(200);
  });
});

describe('instances that share their memory in Redis', () => {
  let redisServer: RedisServer;
  let client: Redis;

  beforeAll(async () => {
    redisServer = await startRedisServer();
    client = new Redis(redisServer.url);
  }, 60_000);
  afterAll(async () => {
    client?.disconnect();
    await redisServer?.stop();
  });

  it('refuse what the other has seen to be stale', async () => {
    const fences = { provide: FenceMemory, useValue: fencedRedis(client) };
    const metadata = { controllers: [GoodsController], providers: [fences] };
    const [one, two] = [await startApp('express', metadata), await startApp('express', metadata)];
    try {
      const late = await one.locks.withLock('goods:1', async (lock) => fencingHeaders(lock));
      const now = await one.locks.withLock('goods:1', async (lock) => fencingHeaders(lock));
      const ship = (app: StartedApp, headers: Record<string, string>) =>
        app.fetch('/goods/1/ship', { method: 'POST', headers });
      expect((await ship(one, now)).status).toBe(201);
      expect((await ship(two, late)).status).toBe(412);
    } finally {
      await Promise.all([one.app.close(), two.app.close()]);
    }
  });
});

describe('a memory of this process', () => {
  it('forgets the key that was raised longest ago when it is full', () => {
    const fences = new ProcessFences(2);
    for (const key of ['a', 'b', 'a', 'c']) fences.raise(key, 5);
    expect([fences.raise('a', 1), fences.raise('c', 1)]).toEqual([5, 5]);
    expect(fences.raise('b', 1)).toBe(1);
  });
});
