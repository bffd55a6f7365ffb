import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { Module, type OnApplicationBootstrap, type OnModuleInit } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { DistributedLockModule, LockService } from 'nestjs-distributed-lock';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { spawnGuarded } from '#processes';
import { ownRedis } from '../../../support/own-redis.js';
import { sideBySide } from '../../../support/side-by-side.js';
import { until } from '#until';

const SCRIPT = fileURLToPath(new URL('failing-boot.mjs', import.meta.url));
/** To start Node and Nest on a busy machine, and the second that a store rests. */
const EXIT_MS = 15_000;
/** Each waits for that second longer than it works. */
const AT_ONCE = 4;
/** Longer than the second after which a store rests. */
const IDLE_MS = 1500;

interface Outcome {
  readonly code: number | null;
  readonly told: unknown[];
  readonly errors: string;
}

async function outcomeOf(options: object): Promise<Outcome & { readonly tookMs: number }> {
  const startedAt = performance.now();
  const { child, exited } = spawnGuarded(process.execPath, [SCRIPT, JSON.stringify(options)], {
    env: process.env,
    stdio: 'pipe',
  });
  const told: unknown[] = [];
  let errors = '';
  if (child.stdout) createInterface(child.stdout).on('line', (line) => told.push(JSON.parse(line)));
  child.stderr?.on('data', (text: Buffer) => (errors += text.toString()));
  const { code } = await exited;
  return { code, told, errors, tookMs: performance.now() - startedAt };
}

const MOMENTS = ['factory', 'onModuleInit', 'onApplicationBootstrap'] as const;
const USES = ['withLock', 'inspect', 'holdAtLeastMs', 'a Redis that is away'] as const;
/** Each moment once, and each use. */
const CASES = [
  ...MOMENTS.map((when) => ({ when, use: USES[0] })),
  ...USES.slice(1).map((use, i) => ({ when: MOMENTS[i]!, use })),
];

function toldBy(use: (typeof USES)[number]): unknown[] {
  if (use === 'inspect') return [];
  return [use === 'a Redis that is away' ? { what: 'refused', code: 'LOCK_STORE' } : { what: 'held' }];
}

describe('an application that fails to boot after a lock was used', () => {
  const redis = ownRedis('boot');
  let outcomes: readonly ReturnType<typeof outcomeOf>[];

  beforeAll(() => {
    outcomes = sideBySide(
      AT_ONCE,
      CASES.map(({ when, use }) => {
        const key = `${when}:${use}`;
        const options =
          use === 'a Redis that is away'
            ? { url: 'redis://127.0.0.1:1', ask: 'withLock' }
            : { url: redis.url, ask: use };
        return () => outcomeOf({ ...options, when, key });
      }),
    );
  });

  it.each(CASES.map(({ when, use }, i) => [when, use, i] as const))(
    'in %s by %s ends by itself',
    async (_when, use, i) => {
      const { tookMs, ...outcome } = await (outcomes[i] as ReturnType<typeof outcomeOf>);
      expect(outcome).toEqual({
        code: 0,
        told: [...toldBy(use), { what: 'failed', message: 'no boot' }],
        errors: '',
      });
      expect(tookMs).toBeLessThan(EXIT_MS);
    },
    CASES.length * EXIT_MS,
  );
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
      await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
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
    await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
    expect(await connections()).toBe(2);
    await module.close();
    expect(await connections()).toBe(0);
  });
});
