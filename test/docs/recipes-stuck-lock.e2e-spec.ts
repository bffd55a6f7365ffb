import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { DistributedLockModule, LockService } from 'nestjs-distributed-lock';
import { OpsModule } from './recipes/stuck-locks.js';

interface Login {
  headers: Record<string, string | undefined>;
  user?: { roles: string[] };
}

describe('the page of a stuck lock', () => {
  let app: INestApplication;
  beforeEach(async () => {
    const module = await Test.createTestingModule({
      imports: [
        DistributedLockModule.forRoot({ application: 'shop', shutdownGraceMs: 0, logger: false }),
        OpsModule,
      ],
    }).compile();
    app = module.createNestApplication({ logger: false });
    app.use((request: Login, _: unknown, next: () => void) => {
      const { role } = request.headers;
      if (role !== undefined) request.user = { roles: [role] };
      next();
    });
    await app.listen(0);
  });
  afterEach(() => app.close());

  const ask = async (path: string, role: string, init?: RequestInit): Promise<Response> =>
    fetch(`${await app.getUrl()}/ops/locks${path}`, {
      ...init,
      headers: { role, 'content-type': 'application/json' },
    });
  const read = async (path: string, init?: RequestInit): Promise<unknown> =>
    (await ask(path, 'operator', init)).json();

  it('finds the lock, says whose it is, and frees it under its holder', async () => {
    const lock = await app.get(LockService).acquire('goods:42', { site: 'nightly import' });
    const holder = { application: 'shop', site: 'nightly import' };
    expect(await read('/api/locks?prefix=goods:')).toMatchObject({
      entries: [{ key: 'goods:42', holders: [holder] }],
    });
    const release = { method: 'POST', body: JSON.stringify({ key: 'goods:42' }) };
    expect(await read('/api/release', release)).toMatchObject({ answer: 'released' });
    expect(await lock.release()).toBe('lost');
    expect(lock.signal.aborted).toBe(true);
    expect(await read('/api/release', release)).toMatchObject({ answer: 'not held' });
  });

  it('is for operators only', async () => {
    const statuses = ['operator', 'buyer'].map(async (role) => (await ask('', role)).status);
    expect(await Promise.all(statuses)).toEqual([200, 403]);
  });
});
