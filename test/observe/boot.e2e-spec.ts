import { randomBytes, randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it } from '@jest/globals';
import type { INestApplication, LoggerService } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  DistributedLockModule,
  LockService,
  memoryStore,
  type DistributedLockModuleOptions,
} from 'nestjs-distributed-lock';
import { quorumStore } from 'nestjs-distributed-lock/quorum';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { startRedisServer } from '#redis-server';
import { until } from '#until';

const SECRET = 'correct-horse';
const NOWHERE = `redis://:${SECRET}@127.0.0.1:1/3`;
const DOWN =
  'warn: The store cannot be used: Redis at 127.0.0.1:1/3 could not be reached: no connection for 100 ms (last error: connect ECONNREFUSED 127.0.0.1:1). Trying again until it can be.';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** The lines of our part of an application that has just started. */
async function boot(
  options: DistributedLockModuleOptions,
): Promise<{ app: INestApplication; lines: string[] }> {
  const lines: string[] = [];
  const write =
    (level: string) =>
    (message: unknown, context?: unknown): void => {
      if (context === 'DistributedLock') lines.push(`${level}: ${String(message)}`);
    };
  const logger: LoggerService = { log: write('log'), warn: write('warn'), error: write('error') };
  const module = await Test.createTestingModule({
    imports: [DistributedLockModule.forRoot({ shutdownGraceMs: 0, ...options })],
  })
    .setLogger(logger)
    .compile();
  const app = module.createNestApplication({ logger });
  closers.push(() => app.close());
  await app.init();
  return { app, lines };
}

const fast = { commandTimeoutMs: 100 };

describe('the log of a start', () => {
  it('names the store, where it is, and the client, and no password', async () => {
    const { app, lines } = await boot({ store: redisStore(NOWHERE) });
    const locks = app.get(LockService);
    const { clientId } = JSON.parse(JSON.stringify(locks)) as { clientId: string };
    const { application, host } = locks.client;
    expect(lines).toEqual([
      `log: Locks are kept in redis at 127.0.0.1:1/3; this process is client ${clientId}: ${application} on ${host}, process ${process.pid}`,
    ]);
    expect(lines.join()).not.toContain(SECRET);
  });

  it('warns of locks in memory in production, and only there', async () => {
    const environment = process.env['NODE_ENV'];
    try {
      expect((await boot({})).lines).toEqual([expect.stringMatching(/^log: Locks are kept in memory; this/)]);
      process.env['NODE_ENV'] = 'production';
      const line = expect.stringMatching(
        /^warn: NODE_ENV is production, and locks are kept in the memory of/,
      );
      expect((await boot({})).lines).toEqual([expect.any(String), line]);
      expect((await boot({ store: memoryStore(), logger: 'warn' })).lines).toEqual([line]);
      expect((await boot({ logger: false })).lines).toEqual([]);
    } finally {
      process.env['NODE_ENV'] = environment;
    }
  });

  it('says that the store cannot be reached although nobody asks for a lock, and does not wait for it', async () => {
    // Says so after a minute, so that a boot that waits for it does not end within this test.
    const { lines } = await boot({
      store: redisStore(NOWHERE, { commandTimeoutMs: 60_000 }),
      watchdogTimeoutMs: 180_000,
    });
    expect(lines).toHaveLength(1);
    const other = await boot({ store: redisStore(NOWHERE, fast) });
    await until(() => other.lines.length === 2);
    expect(other.lines[1]).toBe(DOWN);
  });

  it('names the cause also after a single attempt', async () => {
    // The second attempt comes after hours.
    const chance = {
      random: () => 1e6,
      uuid: randomUUID,
      hex: (bytes: number) => randomBytes(bytes).toString('hex'),
    };
    const { lines } = await boot({ store: redisStore(NOWHERE, fast), chance });
    await until(() => lines.length === 2);
    expect(lines[1]).toBe(DOWN);
  });

  it.each([
    ['warn', [DOWN]],
    ['error', []],
    [false, []],
  ] as const)('is as long as the logger is told: %p', async (logger, expected) => {
    const { app, lines } = await boot({ store: redisStore(NOWHERE, fast), logger });
    const states: unknown[] = [];
    app.get(LockService).events$.subscribe((event) => event.type === 'store' && states.push(event));
    await until(() => states.length === 1);
    expect(lines).toEqual(expected);
  });

  it('says once that the store has gone, and once that it is back, and nothing of its own end', async () => {
    const redis = await startRedisServer();
    closers.push(() => redis.stop());
    const { app, lines } = await boot({ store: redisStore(redis.url, { commandTimeoutMs: 2000 }) });
    // Awaited: a release that is still under way when the server goes would be told, too.
    const lock = await app.get(LockService).acquire('k');
    await lock.release();
    expect(lines).toHaveLength(1);
    await redis.kill();
    await until(() => lines.length === 2);
    expect(lines[1]).toMatch(
      /^warn: The store cannot be used: Redis at \S+ could not be reached: no connection for 2000 ms/,
    );
    await redis.restart();
    await until(() => lines.length === 3);
    expect(lines[2]).toMatch(/^log: The store can be reached again, after \d+ ms$/);
    await app.close();
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(lines).toHaveLength(3);
  });

  it('names the node of a quorum', async () => {
    const nodes = [memoryStore(), redisStore(NOWHERE, fast), memoryStore()];
    const { lines } = await boot({ store: quorumStore(nodes) });
    await until(() => lines.length === 2);
    expect(lines[0]).toMatch(
      /^log: Locks are kept in quorum; this process is client quorum-\d+: .+ on .+, process \d+$/,
    );
    expect(lines[1]).toBe(DOWN.replace('The store', 'Node 2 of the store'));
  });
});
