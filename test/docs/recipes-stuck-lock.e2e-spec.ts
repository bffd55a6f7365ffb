import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { DistributedLockModule, LockLostError, LockService } from 'nestjs-distributed-lock';
import { OpsModule } from './recipes/stuck-locks.js';
import { Documents, Editor } from './recipes/takeover.js';
import { until } from '#until';

interface Login {
  headers: Record<string, string | undefined>;
  user?: { name: string; roles: string[] };
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
      if (role !== undefined) request.user = { name: 'ann', roles: [role] };
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

describe('a document that is edited in a second tab', () => {
  /** What each tab ends with, once it is told to save, or that its lock is taken over. */
  class Tabs extends Editor {
    readonly reasons: unknown[] = [];
    readonly saves: (() => void)[] = [];

    override run(_id: string, signal?: AbortSignal): Promise<'saved' | 'stopped'> {
      return new Promise((resolve) => {
        this.saves.push(() => resolve('saved'));
        signal?.addEventListener('abort', () => {
          this.reasons.push(signal.reason);
          resolve('stopped');
        });
      });
    }
  }

  it('is taken over from the first one, whose handler sees the signal and keeps its result', async () => {
    const tabs = new Tabs();
    const providers = [Documents, { provide: Editor, useValue: tabs }];
    const imports = [DistributedLockModule.forRoot({ application: 'wiki', logger: false })];
    const app = await Test.createTestingModule({ imports, providers }).compile();
    await app.init();
    const first = app.get(Documents).edit('7');
    await until(() => tabs.saves.length === 1);
    const second = app.get(Documents).edit('7');
    expect(await first).toBe('stopped');
    await until(() => tabs.saves.length === 2);
    expect(tabs.reasons).toEqual([expect.any(LockLostError)]);
    expect(tabs.reasons[0]).toMatchObject({ reason: 'takeover', key: 'doc:7' });
    expect(String(tabs.reasons[0])).toMatch(/wiki on .+ \(Documents.edit\) takes it over/);
    tabs.saves[1]?.();
    expect(await second).toBe('saved');
    await app.close();
  });
});
