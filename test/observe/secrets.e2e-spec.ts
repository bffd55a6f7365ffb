import { inspect } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ConsoleLogger } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { Redis } from 'ioredis';
import {
  DistributedLockModule,
  LockService,
  memoryStore,
  type Lock,
  type LockEvent,
} from 'nestjs-distributed-lock';
import { fencedRedis } from 'nestjs-distributed-lock/guard';
import { LockHealthIndicator } from 'nestjs-distributed-lock/health';
import { quorumStore } from 'nestjs-distributed-lock/quorum';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { ManualClock } from 'nestjs-distributed-lock/testing';
import { startRedisServer } from '#redis-server';
import { until } from '#until';

const SECRET = 'correct-horse';
const WRONG = 'battery-staple';

type Write = (value: unknown) => string;

/** What loggers do with what they are given. */
const LOGGERS: Readonly<Record<string, Write>> = {
  'console.log': (value) => inspect(value),
  'console.dir of all': (value) => inspect(value, { depth: Infinity, getters: true }),
  'JSON.stringify': (value) => JSON.stringify({ value }),
  'a copy of its properties': (value) => inspect({ ...(value as object) }, { depth: 7 }),
  'a serializer that walks': (value) => walked(value),
  'the logger of Nest': (value) => nestLine(value, false),
  'the JSON logger of Nest': (value) => nestLine(value, true),
};

/** As serializers of errors and of objects without a `toJSON` do. */
function walked(value: unknown, seen = new Set<unknown>()): string {
  if (typeof value === 'function' || typeof value === 'symbol') return '';
  if (typeof value !== 'object' || value === null) return String(value);
  if (seen.has(value)) return '';
  seen.add(value);
  if (value instanceof Map || value instanceof Set) return [...value].map((it) => walked(it, seen)).join();
  const names = value instanceof Error ? Object.getOwnPropertyNames(value) : Object.keys(value);
  return names.map((name) => `${name}:${walked((value as Record<string, unknown>)[name], seen)}`).join();
}

function nestLine(value: unknown, json: boolean): string {
  const lines: string[] = [];
  const logger = new ConsoleLogger('test', { json, colors: false, depth: 20 } as never);
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = (line: string | Uint8Array): boolean => lines.push(String(line)) > 0;
  try {
    logger.log(value);
  } finally {
    process.stdout.write = write;
  }
  return lines.join('');
}

let redis: Awaited<ReturnType<typeof startRedisServer>>;
const closers: (() => unknown)[] = [];

beforeAll(async () => {
  redis = await startRedisServer();
  const admin = new Redis(redis.url);
  await admin.config('SET', 'requirepass', SECRET);
  await admin.quit();
});
afterAll(() => redis.stop());

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

function urlWith(password: string): string {
  const url = new URL(redis.url);
  url.password = password;
  return url.href;
}

async function compiled(password: string): Promise<TestingModule> {
  const store = redisStore(urlWith(password), { commandTimeoutMs: 5000 });
  const module = await Test.createTestingModule({
    imports: [DistributedLockModule.forRoot({ store, logger: false, shutdownGraceMs: 0 })],
    providers: [LockHealthIndicator],
  }).compile();
  closers.push(() => module.close());
  return module;
}

describe('what an application logs', () => {
  it('never shows the password of the store, whatever writes it', async () => {
    const showing = (values: readonly unknown[]): readonly string[] =>
      Object.entries(LOGGERS).flatMap(([name, write]) =>
        values.flatMap((value, i) => (write(value).includes(SECRET) ? `${name}: value ${i}` : [])),
      );
    const module = await compiled(SECRET);
    const service = module.get(LockService);
    const lock = await service.acquire('goods:1');
    const several = await service.acquire(['goods:2', 'goods:3'], { permits: 2 });
    const shared = await service.acquire('goods:4', { mode: 'shared', leaseMs: 5000 });
    const client = new Redis(urlWith(SECRET), { lazyConnect: true });
    const nodes = [1, 2, 3].map(() => redisStore(urlWith(SECRET)));
    const quorum = new LockService({ store: quorumStore(nodes) });
    closers.push(() => quorum.close());
    quorum.open();
    const all: unknown[] = [
      lock,
      several,
      shared,
      service,
      quorum,
      service.options,
      module.get(LockHealthIndicator),
      module.get(DistributedLockModule, { strict: false }),
      DistributedLockModule.forRoot({ store: redisStore(urlWith(SECRET)) }),
      redisStore(urlWith(SECRET)),
      fencedRedis(client),
      { request: { lock, service } },
    ];
    expect(showing(all)).toEqual([]);
    await shared.release();
    await lock.release();
    await several.release();
    expect(showing([lock, several, shared])).toEqual([]);
  });

  it('never shows a password that is refused, nor its error, nor the event', async () => {
    const module = await compiled(WRONG);
    const service = module.get(LockService);
    const events: LockEvent[] = [];
    service.events$.subscribe((event) => events.push(event));
    await module.init();
    let error: unknown;
    await until(async () => {
      error = await service.acquire('k', { waitMs: 500 }).catch((it: unknown) => it);
      return inspect(error, { depth: Infinity }).includes('WRONGPASS');
    });
    const inspected: unknown = await service.inspect('k').catch((it: unknown) => it);
    await until(() => events.some(({ type }) => type === 'abandoned'));
    for (const value of [error, inspected, events, service]) {
      for (const write of Object.values(LOGGERS)) expect(write(value)).not.toContain(WRONG);
    }
  });

  it('shows of a lock what tells it apart, and finds out no loss by it', async () => {
    const clock = new ManualClock();
    const service = new LockService({ store: memoryStore(), keyPrefix: 'p:', clock });
    closers.push(() => service.close());
    const told: string[] = [];
    const lock: Lock = await service.acquire(['a', 'b'], { leaseMs: 10 });
    service.events$.subscribe(({ type }) => told.push(type));
    const tokens = { a: lock.tokenOf('a'), b: lock.tokenOf('b') };
    const expected = {
      key: 'a',
      keys: ['a', 'b'],
      mode: 'exclusive',
      fencingTokens: tokens,
      isReleased: false,
    };
    clock.stall(11);
    expect(JSON.parse(JSON.stringify(lock))).toEqual(expected);
    expect(inspect(lock)).toBe(`Lock ${inspect(expected)}`);
    expect(told).toEqual([]);
    await lock.release();
    expect(JSON.parse(JSON.stringify(lock))).toEqual({ ...expected, isReleased: true });
    expect(JSON.parse(JSON.stringify(service))).toMatchObject({
      name: 'default',
      keyPrefix: 'p:',
      store: 'memory',
    });
    expect(inspect(service)).toMatch(/^LockService \{/);
  });
});

describe('a key that holds line breaks and escape sequences', () => {
  const KEY = 'a\n[Nest] 1 - ERROR forged\u001b[2J\r\u2028\u202eb\u0000';

  it('makes one line of each message, and stays as it is in the error', async () => {
    const service = new LockService({ store: memoryStore() });
    closers.push(() => service.close());
    const lock = await service.acquire(KEY);
    const busy: unknown = await service.acquire(KEY, { waitMs: 0 }).catch((error: unknown) => error);
    const elsewhere = await service.acquire('other');
    const errors = [
      busy,
      thrown(() => elsewhere.tokenOf(KEY)),
      thrown(() => service.assertHeld(KEY)),
    ] as Error[];
    await lock.release();
    errors.push(thrown(() => lock.assertHeld()) as Error);
    for (const { message, stack = '' } of errors) {
      expect(message).toContain('a\\n[Nest] 1 - ERROR forged\\u001b[2J\\r\\u2028\\u202eb\\u0000');
      expect(message).not.toMatch(/[\p{Cc}\u2028\u202e]/u);
      expect(stack.split('\n').filter((line) => !line.startsWith('    at '))).toHaveLength(1);
    }
    expect(busy).toMatchObject({ key: KEY });
    await elsewhere.release();
  });

  it('makes one line of each line of the log', async () => {
    const lines: string[] = [];
    const write = (line: unknown): void => void lines.push(String(line));
    const logger = { log: write, error: write, warn: write, debug: write };
    const module = await Test.createTestingModule({
      imports: [DistributedLockModule.forRoot({ logger: 'debug' })],
    })
      .setLogger(logger)
      .compile();
    closers.push(() => module.close());
    const service = module.get(LockService);
    await service.withLock(KEY, () => service.forceRelease(KEY)).catch(() => undefined);
    await service.withLock(KEY, () => undefined);
    expect(lines.filter((line) => line.includes('forged')).length).toBeGreaterThan(3);
    expect(lines.filter((line) => /[\p{Cc}\u2028\u202e]/u.test(line))).toEqual([]);
  });
});

function thrown(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return error;
  }
}
