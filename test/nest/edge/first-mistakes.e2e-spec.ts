import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { type INestApplication, type LoggerService, type ModuleMetadata, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Redis } from 'ioredis';
import {
  DistributedLockModule,
  LockService,
  memoryStore,
  type LockStoreFactory,
} from 'nestjs-distributed-lock';
import { postgresStore } from 'nestjs-distributed-lock/postgres';
import { redisStore } from 'nestjs-distributed-lock/redis';

/** Compiles any value in the place of another, as a configuration without types lets it through. */
const loosely = (value: unknown): never => value as never;
const withStore = (store: unknown): ModuleMetadata => ({
  imports: [DistributedLockModule.forRoot({ store: store as LockStoreFactory })],
});

const open: INestApplication[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((app) => app.close()));
});

/** @returns the lines of our part of the log, while they grow */
async function boot(metadata: ModuleMetadata): Promise<{ app: INestApplication; lines: string[] }> {
  const lines: string[] = [];
  const write = (message: unknown, context?: unknown): void => {
    if (String(context).startsWith('DistributedLock')) lines.push(String(message));
  };
  const logger: LoggerService = { log: write, warn: write, error: write };
  const module = await Test.createTestingModule(metadata).setLogger(logger).compile();
  const app = module.createNestApplication({ logger });
  open.push(app);
  await app.init();
  return { app, lines };
}

/** What the boot says of the mistake. */
async function answerTo(mistake: () => ModuleMetadata): Promise<string> {
  return Promise.resolve()
    .then(() => boot(mistake()))
    .then(() => 'started', String);
}

const client = new Redis({ lazyConnect: true });
afterAll(() => client.disconnect());

const MISTAKES: readonly (readonly [what: string, mistake: () => ModuleMetadata, remedy: string])[] = [
  [
    'the service among the providers',
    () => ({ providers: [LockService as Type] }),
    'take it out of providers and imports, and import DistributedLockModule.forRoot(…)',
  ],
  [
    'the service among the imports',
    () => ({ imports: [LockService as Type] }),
    'take it out of providers and imports, and import DistributedLockModule.forRoot(…)',
  ],
  [
    'a store in place of the options',
    () => ({ imports: [DistributedLockModule.forRoot(loosely(memoryStore()))] }),
    'write forRoot({ store: … })',
  ],
  [
    'a URL in place of the options',
    () => ({ imports: [DistributedLockModule.forRoot(loosely('redis://localhost'))] }),
    'must be an object; it was given a string',
  ],
  [
    'the name of a registration among the options that a factory returns',
    () => ({
      imports: [DistributedLockModule.forRootAsync({ useFactory: () => loosely({ name: 'jobs' }) })],
    }),
    'Write it beside: forRootAsync({ name: …, useFactory: … })',
  ],
  [
    'a promise of a store',
    () => withStore(Promise.resolve(memoryStore())),
    'Make the store in an async useFactory of forRootAsync',
  ],
  ['a function of a store', () => withStore(memoryStore), 'Call the function: memoryStore()'],
  ['a class of a store', () => withStore(class MyStore {}), 'it was given a function. Call the function'],
  ['a client as the store', () => withStore(client), 'Write redisStore(…) around a URL or a client'],
  [
    'options of a client as the store',
    () => withStore({ host: 'localhost' }),
    'Write redisStore(…) around a URL',
  ],
  [
    'a promise of a client',
    () => withStore(redisStore(loosely(Promise.resolve(client)))),
    'it was given a promise, which must be awaited',
  ],
  [
    'the URL of a cache for a database',
    () => withStore(postgresStore('redis://localhost')),
    'the scheme of the URL is redis:, not postgres:',
  ],
];

describe("a newcomer's mistake", () => {
  it.each(MISTAKES)('is answered in one line with the remedy: %s', async (_what, mistake, remedy) => {
    const message = await answerTo(mistake);
    expect(message).toContain(remedy);
    expect(message).toMatch(/^LockConfigurationError: .+$/);
    expect(message).not.toContain('\n');
  });

  it('is told of in the log where it may be meant so: the module is imported twice, and no method is locked', async () => {
    const { lines } = await boot({
      imports: [DistributedLockModule.forRoot(), DistributedLockModule.forRoot()],
    });
    expect(lines.filter((line) => line.includes('Import it once, in the root module'))).toEqual([
      expect.stringMatching(/^2 DistributedLockModules have the name "default": each has/),
    ]);
    const named = await boot({
      imports: [DistributedLockModule.forRoot(), DistributedLockModule.forRoot({ name: 'jobs' })],
    });
    expect(named.lines).toHaveLength(2);
  });

  it('is told of in the log where Nest says nothing: overrideModule, which replaces no module of forRoot', async () => {
    const lines: string[] = [];
    const write = (message: unknown): void => void lines.push(String(message));
    const logger: LoggerService = { log: write, warn: write, error: write };
    const module = await Test.createTestingModule({ imports: [DistributedLockModule.forRoot()] })
      .setLogger(logger)
      .overrideModule(DistributedLockModule)
      .useModule(class Other {})
      .compile();
    const app = module.createNestApplication({ logger });
    open.push(app);
    await app.init();
    expect(lines.filter((line) => line.includes('overrideModule'))).toEqual([
      expect.stringContaining('give other locks by overrideProvider(LockService).useValue(new TestLocks())'),
    ]);
  });
});
