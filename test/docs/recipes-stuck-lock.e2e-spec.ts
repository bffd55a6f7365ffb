import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  DistributedLockModule,
  LockService,
  type HoldSnapshot,
  type LockPage,
} from 'nestjs-distributed-lock';
import { LocksController } from './recipes/stuck-locks.js';

describe('the page of a stuck lock', () => {
  let app: INestApplication;
  beforeEach(async () => {
    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot({ application: 'shop', shutdownGraceMs: 0, logger: false })],
      controllers: [LocksController],
    }).compile();
    app = module.createNestApplication({ logger: false });
    await app.listen(0);
  });
  afterEach(() => app.close());

  const ask = async <T>(path: string, method = 'GET'): Promise<T> => {
    const answer = await fetch(`${await app.getUrl()}/ops/locks${path}`, { method });
    return (await answer.json()) as T;
  };

  it('finds the lock, says whose it is, and frees it under its holder', async () => {
    const locks = app.get(LockService);
    const lock = await locks.acquire('goods:42', { site: 'nightly import' });
    const { entries, cursor } = await ask<LockPage>('?prefix=goods:');
    expect(cursor).toBeUndefined();
    expect(entries.map(({ key, heldBy }) => [key, heldBy[0]?.client?.application, heldBy[0]?.site])).toEqual([
      ['goods:42', 'shop', 'nightly import'],
    ]);
    expect((await ask<HoldSnapshot[]>('/here')).map(({ key }) => key)).toEqual(['goods:42']);
    expect(await ask('/goods:42/free', 'POST')).toEqual({ answer: 'released' });
    expect((await ask<LockPage>('')).entries).toEqual([]);
    expect(await lock.release()).toBe('lost');
    expect(lock.signal.aborted).toBe(true);
    expect(await ask('/goods:42/free', 'POST')).toEqual({ answer: 'not held' });
  });
});
