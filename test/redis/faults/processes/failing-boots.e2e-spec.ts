import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { Module, type OnApplicationBootstrap, type OnModuleInit } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { DistributedLockModule, LockService } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { spawnGuarded } from '#processes';
import { ownRedis } from '../../../support/own-redis.js';
import { elapsed } from '../../../support/lock-services.js';
import { until } from '#until';

const SCRIPT = fileURLToPath(new URL('failing-boot.mjs', import.meta.url));
/** To start Node and Nest on a busy machine, and the second that a store rests. */
const EXIT_MS = 15_000;

async function outcomeOf(options: object): Promise<{ code: number | null; told: unknown[]; errors: string }> {
  const { child, exited } = spawnGuarded(process.execPath, [SCRIPT, JSON.stringify(options)], {
    env: process.env,
    stdio: 'pipe',
  });
  const told: unknown[] = [];
  let errors = '';
  if (child.stdout) createInterface(child.stdout).on('line', (line) => told.push(JSON.parse(line)));
  child.stderr?.on('data', (text: Buffer) => (errors += text.toString()));
  const { code } = await exited;
  return { code, told, errors };
}

describe('an application that fails to boot after a lock was used', () => {
  const redis = ownRedis('boot');

  describe.each(['factory', 'onModuleInit', 'onApplicationBootstrap'])('in %s', (when) => {
    it.each(['withLock', 'inspect', 'holdAtLeastMs'])(
      'by %s ends by itself',
      async (ask) => {
        const outcome = outcomeOf({ url: redis.url, when, ask, key: `${when}:${ask}` });
        expect(await elapsed(outcome)).toBeLessThan(EXIT_MS);
        const told = [
          ...(ask === 'inspect' ? [] : [{ what: 'held' }]),
          { what: 'failed', message: 'no boot' },
        ];
        expect(await outcome).toEqual({ code: 0, told, errors: '' });
      },
      30_000,
    );

    it('ends by itself when Redis is away', async () => {
      const outcome = outcomeOf({ url: 'redis://127.0.0.1:1', when, ask: 'withLock', key: 'away' });
      expect(await elapsed(outcome)).toBeLessThan(EXIT_MS);
      const told = [
        { what: 'refused', code: 'LOCK_STORE' },
        { what: 'failed', message: 'no boot' },
      ];
      expect(await outcome).toEqual({ code: 0, told, errors: '' });
    }, 30_000);
  });
});

describe('a testing module', () => {
  const redis = ownRedis('boot');
  let connections: () => Promise<number>;

  beforeAll(async () => {
    const count = async () =>
      String(await redis.eyes.client.client('LIST'))
        .trim()
        .split('\n').length;
    const before = await count();
    connections = async () => (await count()) - before;
  }, 60_000);

  const imports = () => [
    DistributedLockModule.forRoot({ store: redisStore(redis.url), logger: false, shutdownGraceMs: 0 }),
  ];

  it.each(['onModuleInit', 'onApplicationBootstrap'] as const)(
    'whose %s throws leaves no connection, although nobody closes it',
    async (hook) => {
      @Module({ imports: imports() })
      class Broken implements OnModuleInit, OnApplicationBootstrap {
        constructor(private readonly locks: LockService) {}
        async onModuleInit(): Promise<void> {
          await this.locks.withLock('early', () => undefined);
          if (hook === 'onModuleInit') throw new Error('no boot');
        }
        onApplicationBootstrap(): void {
          throw new Error('no boot');
        }
      }
      const module = await Test.createTestingModule({ imports: [Broken] }).compile();
      await expect(module.init()).rejects.toThrow('no boot');
      expect(await connections()).toBeGreaterThan(0);
      await until(async () => (await connections()) === 0);
    },
  );

  it('that is only compiled opens for each use, and closes when it rests', async () => {
    const module = await Test.createTestingModule({ imports: imports() }).compile();
    const locks = module.get(LockService);
    for (let use = 0; use < 2; use++) {
      const lock = await locks.acquire('only compiled');
      await new Promise((resolve) => setTimeout(resolve, 2500));
      lock.assertHeld();
      expect(await lock.release()).toBe('released');
      await until(async () => (await connections()) === 0);
    }
    await module.close();
  }, 20_000);

  it('that has booted keeps its connections until it is closed', async () => {
    const module = await Test.createTestingModule({ imports: imports() }).compile();
    await module.get(LockService).withLock('early', () => undefined);
    await module.init();
    await new Promise((resolve) => setTimeout(resolve, 2500));
    expect(await connections()).toBe(2);
    await module.close();
    expect(await connections()).toBe(0);
  });
});
