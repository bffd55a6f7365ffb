import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { startRedisServer, type RedisServer } from '#redis-server';
import { closeServices, elapsed, openService } from '../../../support/lock-services.js';
import { Worker } from './workers.js';

/** Two commands to give back what is held, and one to say good-bye. */
const CLOSE_MS = 2000;
const SLACK_MS = 500;

describe('a process that exits without closing', () => {
  let server: RedisServer;

  beforeAll(async () => {
    server = await startRedisServer();
  }, 20_000);
  afterAll(() => server.stop());
  afterEach(closeServices);

  it('has sent the release of each call that has settled', async () => {
    await openService(server.url).withLock('loads the scripts', () => undefined);
    const worker = new Worker({ role: 'exit', url: server.url, key: 'exit' });
    expect(await worker.exited()).toEqual({ code: 0, errors: '' });
    const lock = openService(server.url).acquire('exit', { waitMs: 1000 });
    expect(await (await lock).release()).toBe('released');
  }, 20_000);
});

describe('a process that closes', () => {
  let server: RedisServer;
  let worker: Worker | undefined;

  beforeEach(async () => {
    server = await startRedisServer();
  }, 20_000);
  afterEach(async () => {
    await worker?.kill();
    await closeServices();
    await server.stop();
  });

  const never = 'redis://127.0.0.1:1';
  const cases: [name: string, url: () => string, fault: () => Promise<void>][] = [
    ['is well', () => server.url, () => Promise.resolve()],
    ['was killed', () => server.url, () => server.kill()],
    ['is frozen', () => server.url, () => server.pause()],
    ['was never there', () => never, () => Promise.resolve()],
    ['refuses its password', () => server.url.replace('//', '//nobody:wrong@'), () => Promise.resolve()],
  ];

  it.each(cases)(
    'ends by itself, without an unhandled rejection, when Redis %s',
    async (name, url, fault) => {
      if (url() === server.url) await openService(server.url).acquire('exit:other');
      worker = new Worker({ role: 'close', url: url(), key: 'exit' });
      await worker.hear('ready');
      await fault();
      worker.signal('SIGTERM');
      expect(await elapsed(worker.hear('closed'))).toBeLessThan(CLOSE_MS);
      expect(await elapsed(worker.exited())).toBeLessThan(SLACK_MS);
      expect(await worker.exited()).toEqual({ code: 0, errors: '' });
      const { failures } = await worker.hear('closed');
      const first = name === 'was never there' || name.startsWith('refuses') ? ['LOCK_STORE'] : [];
      expect(failures).toEqual([...first, 'LOCK_SHUTDOWN']);
    },
    30_000,
  );
});
