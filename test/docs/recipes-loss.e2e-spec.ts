import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { TestingModule } from '@nestjs/testing';
import { Test } from '@nestjs/testing';
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
import { Feed, Importer } from './recipes/long-loop.js';
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

describe('a loop that runs for as long as its instance', () => {
  it('stops when the application closes, and goes on in the next one', async () => {
    const store = memoryStore();
    const imported: string[] = [];
    const start = async (name: string) => {
      const importNext = async () => {
        imported.push(name);
        await setTimeout(5);
      };
      const feed = { provide: Feed, useValue: { importNext } };
      const imports = [DistributedLockModule.forRoot({ store })];
      const app = await Test.createTestingModule({ imports, providers: [Importer, feed] }).compile();
      return app.init();
    };
    const [one, other] = [await start('one'), await start('other')];
    await until(() => imported.length > 3);
    expect(new Set(imported).size).toBe(1);
    const [first, next] = imported[0] === 'one' ? [one, other] : [other, one];
    expect(await elapsed(first.close())).toBeLessThan(2000);
    await until(() => new Set(imported).size === 2);
    await next.close();
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
