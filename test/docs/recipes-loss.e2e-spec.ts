import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Global, Module } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  DistributedLockModule,
  Locked,
  LockLostError,
  LockService,
  memoryStore,
} from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { startRedisServer, type RedisServer } from '#redis-server';
import { until } from '#until';
import { elapsed } from '../support/lock-services.js';
import { Feed, ImportModule, Importer } from './recipes/leader.js';
import { Invoices, Mail } from './recipes/lost-lock.js';

describe('a lock that is lost', () => {
  let server: Server;
  let url: string;
  let app: TestingModule;
  const answers: (() => void)[] = [];
  const sent: string[] = [];

  beforeEach(async () => {
    server = createServer((_request, response) => answers.push(() => response.end('invoice')));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const mail = { provide: Mail, useValue: { send: async (invoice: string) => void sent.push(invoice) } };
    const imports = [DistributedLockModule.forRoot({ logger: false })];
    app = await Test.createTestingModule({ imports, providers: [Invoices, mail] }).compile();
    await app.init();
    answers.length = sent.length = 0;
  });
  afterEach(async () => {
    await app?.close();
    server?.closeAllConnections();
    server?.close();
  });

  const atWork = () => until(() => answers.length === 1);

  it('ends a request that carries its signal at once, with the loss as its error', async () => {
    const sending = app.get(Invoices).send(url);
    await atWork();
    await app.get(LockService).forceRelease(`invoice:${encodeURIComponent(url)}`);
    await expect(sending).rejects.toBeInstanceOf(LockLostError);
    expect(sent).toEqual([]);
  });

  it('changes nothing for work that keeps its lock, nor for a result that stands by itself', async () => {
    const sending = app.get(Invoices).send(url);
    await atWork();
    answers.shift()?.();
    await sending;
    expect(sent).toEqual(['invoice']);
    const preview = app.get(Invoices).preview(url);
    await atWork();
    await app.get(LockService).forceRelease(`preview:${encodeURIComponent(url)}`);
    answers.shift()?.();
    expect(await preview).toBe('invoice');
  });
});

describe('a leader', () => {
  const imported: string[] = [];
  const swept: (readonly [name: string, token: number | undefined])[] = [];
  const open: TestingModule[] = [];
  let store = memoryStore();

  async function start(name: string, fails: () => boolean = () => false): Promise<TestingModule> {
    const importNext = async () => {
      imported.push(name);
      await setTimeout(5);
      if (fails()) throw new Error('the feed is broken');
    };
    const sweep = async (token: number | undefined) => void swept.push([name, token]);
    const feed = { provide: Feed, useValue: { importNext, sweep } };
    @Global()
    @Module({ providers: [feed], exports: [Feed] })
    class FeedModule {}
    const imports = [DistributedLockModule.forRoot({ store, logger: false }), FeedModule, ImportModule];
    const app = await Test.createTestingModule({ imports }).compile();
    open.push(app);
    return app.init();
  }

  beforeEach(() => {
    imported.length = swept.length = 0;
    store = memoryStore();
  });
  afterEach(async () => {
    await Promise.all(open.splice(0).map((app) => app.close()));
  });

  it('is one instance at a time, and another one when it closes', async () => {
    const first = await start('first');
    const next = await start('next');
    await until(() => imported.length > 3);
    expect(new Set(imported)).toEqual(new Set(['first']));
    for (const app of [first, next]) await app.get(Importer).sweep();
    expect(swept).toEqual([['first', expect.any(Number)]]);
    expect(await elapsed(first.close())).toBeLessThan(2000);
    await until(() => imported.at(-1) === 'next');
    expect(imported.lastIndexOf('first')).toBeLessThan(imported.indexOf('next'));
  });

  it('that has lost its lock ends its work, and leads again when the next one closes', async () => {
    const first = await start('first');
    const next = await start('next');
    await until(() => imported.length > 1);
    await first.get(LockService).forceRelease('leader:import');
    await until(() => imported.at(-1) === 'next');
    const after = imported.length;
    await until(() => imported.length > after + 5);
    expect(new Set(imported.slice(after))).toEqual(new Set(['next']));
    await next.close();
    await until(() => imported.at(-1) === 'first');
  });

  it('whose work fails leaves the lead to another one', async () => {
    await start('first', () => true);
    await start('next');
    await until(() => imported.includes('next'));
    expect(imported.filter((name) => name === 'first')).toHaveLength(1);
  });
});

describe('a job while Redis is away', () => {
  const LEASE_MS = 60_000;
  let redis: RedisServer;
  const runs: string[] = [];
  const open: TestingModule[] = [];

  class Job {
    @Locked('job', { onBusy: 'skip', holdAtLeastMs: LEASE_MS })
    async once(): Promise<void> {
      runs.push('once');
    }

    @Locked('job', { onBusy: 'skip', holdAtLeastMs: LEASE_MS, waitMs: 10_000 })
    async patient(): Promise<void> {
      runs.push('patient');
    }
  }

  async function instance(): Promise<Job> {
    const store = redisStore(redis.url, { commandTimeoutMs: 100 });
    const imports = [DistributedLockModule.forRoot({ store, logger: false, shutdownGraceMs: 0 })];
    const app = await Test.createTestingModule({ imports, providers: [Job] }).compile();
    open.push(app);
    await app.init();
    return app.get(Job);
  }

  beforeEach(async () => {
    runs.length = 0;
    redis = await startRedisServer();
  }, 60_000);
  afterEach(async () => {
    await Promise.all(open.splice(0).map((app) => app.close()));
    await redis?.stop();
  });

  it("fails where onBusy: 'skip' asks once: no store said that another instance has it", async () => {
    const job = await instance();
    await redis.kill();
    await expect(job.once()).rejects.toMatchObject({ code: 'LOCK_STORE' });
    expect(runs).toEqual([]);
  });

  it('runs once when Redis is back within waitMs', async () => {
    const [one, other, third] = await Promise.all([instance(), instance(), instance()]);
    await redis.kill();
    const both = Promise.allSettled([one.patient(), other.patient()]);
    await expect(third.once()).rejects.toMatchObject({ code: 'LOCK_STORE' });
    await redis.restart();
    await until(() => runs.length === 1);
    await Promise.all(open.splice(0).map((app) => app.close()));
    await both;
    expect(runs).toEqual(['patient']);
  });
});
