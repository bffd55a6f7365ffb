import { afterEach, describe, expect, it } from '@jest/globals';
import { ownRedis } from '../../../support/own-redis.js';
import { elapsed } from '../../../support/lock-services.js';
import { Worker } from './workers.js';

/** Two commands to give back what is held, and one to say good-bye. */
const CLOSE_MS = 2000;
const SLACK_MS = 900;

describe('a process that exits without closing', () => {
  const redis = ownRedis('exit');

  it('has sent the release of each call that has settled', async () => {
    await redis.open().withLock('loads the scripts', () => undefined);
    const worker = new Worker({ role: 'exit', url: redis.url, key: 'exit' });
    expect(await worker.exited()).toEqual({ code: 0, errors: '' });
    const lock = redis.open().acquire('exit', { waitMs: 1000 });
    expect(await (await lock).release()).toBe('released');
  }, 20_000);
});

describe('a process that closes', () => {
  const redis = ownRedis('exit', { per: 'test' });
  let worker: Worker | undefined;
  afterEach(async () => {
    await worker?.kill();
  });

  const never = 'redis://127.0.0.1:1';
  const cases: [name: string, url: () => string, fault: () => Promise<void>][] = [
    ['is well', () => redis.url, () => Promise.resolve()],
    ['was killed', () => redis.url, () => redis.server.kill()],
    ['is frozen', () => redis.url, () => redis.server.pause()],
    ['was never there', () => never, () => Promise.resolve()],
    ['refuses its password', () => redis.url.replace('//', '//nobody:wrong@'), () => Promise.resolve()],
  ];

  it.each(cases)(
    'ends by itself, without an unhandled rejection, when Redis %s',
    async (name, url, fault) => {
      if (url() === redis.url) await redis.open().acquire('exit:other');
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
