import { afterEach, describe, expect, it } from '@jest/globals';
import type { LoggerService } from '@nestjs/common';
import { LockStoreError, type DistributedLockModuleOptions } from 'nestjs-distributed-lock';
import { WatchedApp } from './watched-app.js';

/** Keeps what our part of the application has written. */
class Paper implements LoggerService {
  readonly lines: string[] = [];
  private readonly write =
    (level: string) =>
    (message: unknown, ...others: unknown[]): void => {
      if (isOurs(others.at(-1))) this.lines.push(`${level}: ${String(message)}`);
    };
  readonly log = this.write('log');
  readonly error = this.write('error');
  readonly warn = this.write('warn');
  readonly debug = this.write('debug');
}

/** Nest's own lines about our modules are not. */
const isOurs = (context: unknown): boolean => /^DistributedLock\b(?!Module)/.test(String(context));

/** Of how many keys a line tells. */
const keysIn = (line: string): number =>
  new Set(line.match(/"job:\d+"/g)).size + Number(/ and (\d+) more\b/.exec(line)?.[1] ?? 0);

let watched: WatchedApp | undefined;
const started = async (options: DistributedLockModuleOptions, logger: LoggerService): Promise<WatchedApp> =>
  (watched = await WatchedApp.start(options, { logger }));

afterEach(async () => {
  await watched?.close();
  watched = undefined;
});

describe('the log of an application', () => {
  it('has one line for all locks of a round whose renewal got no answer, and one when they are renewed after all', async () => {
    const paper = new Paper();
    const { locks, clock, ...app } = await given({}, paper);
    for (const key of ['a', 'b', 'c', 'd', 'e']) await locks.acquire(key);
    app.cutRenewals();
    await clock.advance(11_500);
    expect(paper.lines).toEqual([
      expect.stringMatching(
        /^warn: No answer to the renewal of "a", "b", "c" and 2 more: The network lost it: nothing came back\. The first is valid for another \d{5} ms; trying again until then\.$/,
      ),
    ]);
    app.mend();
    await clock.advance(2000);
    expect(paper.lines.slice(1)).toEqual(['log: Renewed after all: "a", "b", "c" and 2 more']);
  });

  it('has an error for a lost lock, in the words that its holder is told', async () => {
    const paper = new Paper();
    const { locks, clock } = await given({}, paper);
    const lock = await locks.acquire('short', { leaseMs: 1000 });
    await clock.advance(1000);
    expect(() => lock.assertHeld()).toThrow('Lost "short"');
    await clock.settle();
    expect(paper.lines).toEqual([`error: ${(lock.signal.reason as Error).message}`]);
  });

  it('has a warning for a lock that was released by force, with who has done it', async () => {
    const paper = new Paper();
    const { locks } = await given({}, paper);
    const lock = await locks.acquire('goods:42');
    await locks.forceRelease('goods:42', { owner: (await locks.inspect('goods:42'))!.holders, by: 'ann\n' });
    await lock.release();
    expect(paper.lines.join()).toMatch(/"goods:42" was released by force, by ann\\n; held by \S+:\d+/);
  });

  it('has a warning for a lock that the end of the application took away', async () => {
    const paper = new Paper();
    const { locks } = await given({}, paper);
    await locks.acquire('slow');
    await watched?.close();
    expect(paper.lines).toEqual([expect.stringMatching(/^warn: Lost "slow" .* grace of 0 ms is over/)]);
  });

  it('has one line for all locks that the end of the application took away', async () => {
    const paper = new Paper();
    const { locks } = await given({}, paper);
    for (let i = 0; i < 500; i++) await locks.acquire(`job:${i}`);
    await watched?.close();
    expect(paper.lines).toEqual([
      expect.stringMatching(
        /^warn: Lost "job:0" .* without the fencing token\. Lost likewise: "job:1", "job:2", "job:3" and 496 more\.$/,
      ),
    ]);
  });

  it('has a line a second at most for the locks that an outage ends, and two for their releases', async () => {
    const paper = new Paper();
    const { locks, clock, ...app } = await given({}, paper);
    const held = [];
    for (let i = 0; i < 80; i++) {
      held.push(await locks.acquire(`job:${i}`));
      await clock.advance(100);
    }
    app.cut();
    const settled = Promise.all(held.slice(60).map((lock) => lock.release()));
    await clock.advance(40_000);
    expect(new Set(await settled)).toEqual(new Set(['unknown']));
    const lost = paper.lines.filter((line) => line.startsWith('error: Lost'));
    expect(lost.map(keysIn).reduce((sum, keys) => sum + keys)).toBe(60);
    // The last ones end 6 s after the first ones.
    expect(lost.length).toBeLessThanOrEqual(8);
    const failed = paper.lines.filter((line) => line.startsWith('warn: Failed during release of'));
    expect(failed.map(keysIn)).toEqual([1, 19]);
  });

  it('has one line for a fault that comes again and again, and a line for each other fault, in their order', async () => {
    const paper = new Paper();
    const { locks, clock } = await given({}, paper);
    const listening = locks.events$.subscribe(({ type }) => {
      if (type === 'asked') throw new Error('boom');
    });
    for (let i = 0; i < 100; i++) await locks.withLock(`k${i}`, () => undefined);
    listening.unsubscribe();
    const { storeContext: store } = watched!;
    store?.onError?.('notification', new LockStoreError('bad bytes', undefined, 'unknown'));
    store?.onState?.({ isUp: true, afterMs: 70 });
    expect(paper.lines).toEqual([
      'warn: Failed during listener: boom',
      'warn: Failed during listener, 99 times: boom',
      'warn: Failed during notification: bad bytes',
      'log: The store can be reached again, after 70 ms',
    ]);
    await clock.advance(10_000);
    expect(paper.lines).toHaveLength(4);
  });

  it('has nothing about locks that are acquired, waited for and released', async () => {
    const paper = new Paper();
    const { locks, clock } = await given({}, paper);
    await useAndGiveUp(locks, clock);
    expect(paper.lines).toEqual([]);
  });

  it('has one line for an outage that keeps callers from their locks, and one for its end', async () => {
    const paper = new Paper();
    const { locks, clock, ...app } = await given({}, paper);
    app.cut();
    const calls = ['a', 'b', 'c'].map((key) => locks.acquire(key, { waitMs: 1000 }).catch(() => 'none'));
    await clock.advance(2000);
    expect(await Promise.all(calls)).toEqual(['none', 'none', 'none']);
    expect(paper.lines).toEqual([
      expect.stringMatching(
        /^warn: Left the queue for "a" after \d+ ms: Could not acquire "a" within 1000 ms\. The network lost it/,
      ),
    ]);
    app.mend();
    await locks.withLock('a', () => undefined);
    await locks.withLock('b', () => undefined);
    expect(paper.lines.slice(1)).toEqual(['log: The store answers again; calls that got no lock: 3']);
  });

  it('tells each step of each call under debug', async () => {
    const paper = new Paper();
    const { locks, clock } = await given({ logger: 'debug' }, paper);
    await useAndGiveUp(locks, clock);
    expect(paper.lines).toEqual([
      expect.stringMatching(/^debug: Acquired "k" after 0 ms; token \d+$/),
      'debug: Others wait for "k"',
      expect.stringMatching(/^debug: Left the queue for "k" after 50 ms: Could not acquire "k" within 50 ms/),
      'debug: Released "k" after 50 ms',
    ]);
  });

  it.each([
    { logger: 'error', level: 'error' },
    { logger: false, level: 'none' },
  ] as const)('leaves out what the option does not ask for: $logger', async ({ logger, level }) => {
    const paper = new Paper();
    const { locks, clock, ...app } = await given({ logger }, paper);
    await locks.acquire('k');
    app.cutRenewals();
    await clock.advance(31_000);
    expect(paper.lines.map((line) => line.split(':')[0])).toEqual(level === 'none' ? [] : [level]);
  });

  it('names the registration when it has a name', async () => {
    const contexts: unknown[] = [];
    const paper = new Paper();
    const logger = Object.assign(paper, { error: (...args: unknown[]) => contexts.push(args.at(-1)) });
    await started({ name: 'audit' } as DistributedLockModuleOptions, logger);
    const { getLockServiceToken } = await import('nestjs-distributed-lock');
    const locks = watched!.app.get(getLockServiceToken('audit'));
    await locks.acquire('short', { leaseMs: 100 });
    await watched!.clock.advance(200);
    expect(contexts).toEqual(['DistributedLock audit']);
  });

  it('hurts neither a lock nor the process when its logger throws', async () => {
    let isFailing = false;
    const fails = (): void => {
      if (isFailing) throw new Error('the disk is full');
    };
    const logger = Object.assign(new Paper(), { error: fails, warn: fails });
    const { locks, clock, ...app } = await given({}, logger);
    const told: string[] = [];
    locks.events$.subscribe(({ type }) => told.push(type));
    isFailing = true;
    const lock = await locks.acquire('k');
    await locks.acquire('short', { leaseMs: 1000 });
    app.cutRenewals();
    await clock.advance(11_000);
    app.mend();
    await clock.advance(9_000);
    lock.assertHeld();
    expect(await lock.release()).toBe('released');
    expect(told).toEqual([
      'asked',
      'acquired',
      'asked',
      'acquired',
      'lost',
      'suspended',
      'resumed',
      'released',
    ]);
  });

  it('stops the boot for a level that is none, with those that there are', async () => {
    await expect(started({ logger: 'loud' as never }, new Paper())).rejects.toThrow(
      "logger must be true, false, 'error', 'warn', 'log' or 'debug'; it is loud.",
    );
  });
});

async function given(options: DistributedLockModuleOptions, logger: LoggerService) {
  const app = await started(options, logger);
  // What is said at the start has a suite of its own.
  if (logger instanceof Paper) logger.lines.length = 0;
  return {
    locks: app.locks,
    clock: app.clock,
    cutRenewals: () => app.cutRenewals(),
    cut: () => app.cut(),
    mend: () => app.mend(),
  };
}

/** One caller gets the lock; another waits for it in vain. */
async function useAndGiveUp(locks: WatchedApp['locks'], clock: WatchedApp['clock']): Promise<void> {
  const lock = await locks.acquire('k');
  const waiting = locks.acquire('k', { waitMs: 50 }).catch(() => 'gave up');
  await clock.advance(50);
  expect(await waiting).toBe('gave up');
  await lock.release();
}
