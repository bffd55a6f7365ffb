import 'reflect-metadata';
import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { HttpException } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  type AcquireRequest,
  type LockService,
  type LockStoreFactory,
  LockWaitTimeoutError,
  memoryStore,
} from 'nestjs-distributed-lock';
import { memoryResults, type OnceOptions, OnceService, type ResultStore } from 'nestjs-distributed-lock/once';
import { until } from '#until';
import { eventsOf } from '../support/events.js';
import { closeServices, failureOf, openServiceOn } from '../support/lock-services.js';
import { describeResultStore } from './support/results.contract.js';

describeResultStore('in memory', () => memoryResults());

const KEEP = { keepForMs: 60_000 };

/** Work that stands still until the test ends it. */
class Work {
  runs = 0;
  private end: (() => void) | undefined;
  readonly run = async (): Promise<string> => {
    const run = ++this.runs;
    await new Promise<void>((resolve) => (this.end = resolve));
    return `result ${run}`;
  };
  finish(): void {
    this.end?.();
  }
}

/** Results of which a test keeps the reply to one read. */
class SlowResults implements ResultStore {
  private isNextKept = false;
  private onKept = (): void => undefined;
  reply = (): void => undefined;

  constructor(private readonly results: ResultStore) {}

  /** Resolves when the next read has found what there was, and keeps its reply until `reply()`. */
  keepReply(): Promise<void> {
    this.isNextKept = true;
    return new Promise((resolve) => (this.onKept = resolve));
  }

  async read(key: string) {
    const found = await this.results.read(key);
    if (!this.isNextKept) return found;
    this.isNextKept = false;
    await new Promise<void>((resolve) => {
      this.reply = resolve;
      this.onKept();
    });
    return found;
  }

  write(...args: Parameters<ResultStore['write']>) {
    return this.results.write(...args);
  }

  remove(key: string) {
    return this.results.remove(key);
  }
}

describe('once.run', () => {
  let results: ResultStore;
  let locks: LockService;
  let once: OnceService;
  beforeEach(() => {
    results = memoryResults();
    locks = openServiceOn(memoryStore());
    once = new OnceService(locks, { results });
  });
  afterEach(closeServices);

  it('runs the work for the first call, and gives its result to all later ones', async () => {
    let runs = 0;
    const work = () => ({ run: ++runs });
    expect(await once.outcomeOf('a', KEEP, work)).toEqual({ value: { run: 1 }, isReplay: false });
    expect(await once.outcomeOf('a', KEEP, work)).toEqual({ value: { run: 1 }, isReplay: true });
    expect(await once.run('b', KEEP, work)).toEqual({ run: 2 });
  });

  it.each([undefined, null, 0, '', false, [1, { a: 'b' }]])('remembers the result %j', async (result) => {
    await once.run('a', KEEP, () => result);
    expect(await once.outcomeOf('a', KEEP, () => 'other')).toEqual({ value: result, isReplay: true });
  });

  it('a hundred callers that come while the work runs get its one result', async () => {
    const work = new Work();
    const first = once.outcomeOf('a', KEEP, work.run);
    await until(() => work.runs === 1);
    const others = Array.from({ length: 100 }, () => once.outcomeOf('a', KEEP, work.run));
    await until(async () => ((await locks.inspect('once:a'))?.pending.length ?? 0) > 0);
    work.finish();
    expect(await first).toEqual({ value: 'result 1', isReplay: false });
    for (const other of await Promise.all(others))
      expect(other).toEqual({ value: 'result 1', isReplay: true });
    expect(work.runs).toBe(1);
  });

  it('callers that wait read the result one time together', async () => {
    let reads = 0;
    const counting: ResultStore = { ...results, read: (key) => (reads++, results.read(key)) };
    once = new OnceService(locks, { results: counting });
    const work = new Work();
    const first = once.run('a', KEEP, work.run);
    await until(() => work.runs === 1);
    const others = Array.from({ length: 50 }, () => once.run('a', KEEP, work.run));
    await until(async () => ((await locks.inspect('once:a'))?.pending.length ?? 0) > 0);
    reads = 0;
    work.finish();
    await Promise.all([first, ...others]);
    expect(reads).toBeLessThan(10);
  });

  it('a read that began before the result was stored makes no second run', async () => {
    // The first look of the second call reads before the result is there, and its answer arrives after.
    const slow = new SlowResults(results);
    once = new OnceService(locks, { results: slow });
    const work = new Work();
    const first = once.run('a', KEEP, work.run);
    await until(() => work.runs === 1);
    const second = once.outcomeOf('a', KEEP, work.run);
    await slow.keepReply();
    work.finish();
    await first;
    slow.reply();
    expect(await second).toEqual({ value: 'result 1', isReplay: true });
    expect(work.runs).toBe(1);
  });

  it('a read that another call began before the result was stored makes no second run either', async () => {
    let openGate = (): void => undefined;
    const gate = new Promise<void>((resolve) => (openGate = resolve));
    let hasAsked = false;
    const memory = memoryStore();
    const gated: LockStoreFactory = {
      ...memory,
      create(context) {
        const store = memory.create(context);
        const acquire = store.acquire.bind(store);
        return Object.assign(store, {
          acquire: async (request: AcquireRequest) => {
            hasAsked = true;
            await gate;
            return acquire(request);
          },
        });
      },
    };
    const slow = new SlowResults(results);
    const work = new Work();
    const first = new OnceService(openServiceOn(memory), { results }).run('a', KEEP, work.run);
    await until(() => work.runs === 1);
    locks = openServiceOn(gated);
    once = new OnceService(locks, { results: slow });
    // 1. The second call finds no result, and asks for the lock.
    const second = once.outcomeOf('a', KEEP, work.run);
    await until(() => hasAsked);
    // 2. The third call reads before the result is there, and the answer is slow.
    const third = once.outcomeOf('a', KEEP, work.run);
    await slow.keepReply();
    // 3. The first call stores its result and releases. Then the second one gets the lock.
    work.finish();
    await first;
    const events = eventsOf(locks);
    openGate();
    await until(() => events.some(({ type }) => type === 'acquired'));
    slow.reply();
    expect([await second, await third]).toEqual([
      { value: 'result 1', isReplay: true },
      { value: 'result 1', isReplay: true },
    ]);
    expect(work.runs).toBe(1);
  });

  it('the error of the work is not remembered, and the next call works', async () => {
    const failing = once.run('a', KEEP, () => Promise.reject(new TypeError('no stock')));
    expect(await failureOf(failing)).toMatchObject({ name: 'TypeError', message: 'no stock' });
    expect(await once.outcomeOf('a', KEEP, () => 'done')).toEqual({ value: 'done', isReplay: false });
  });

  it('when the work of the first caller fails, exactly one of those that wait works', async () => {
    let runs = 0;
    let fail = (): void => undefined;
    const first = once.run('a', KEEP, async () => {
      await new Promise<void>((resolve) => (fail = resolve));
      throw new Error('no stock');
    });
    await until(async () => (await locks.inspect('once:a')) !== null);
    const others = Array.from({ length: 20 }, () => once.run('a', KEEP, async () => `run ${++runs}`));
    await until(async () => ((await locks.inspect('once:a'))?.pending.length ?? 0) > 0);
    fail();
    expect(await failureOf(first)).toMatchObject({ message: 'no stock' });
    expect(new Set(await Promise.all(others))).toEqual(new Set(['run 1']));
  });

  it('a failure is remembered if rememberFailure says so, as its HTTP response or its message', async () => {
    const options: OnceOptions = { ...KEEP, rememberFailure: (error) => error instanceof Error };
    const http = new HttpException({ reason: 'sold out' }, 410);
    expect(await failureOf(once.run('a', options, () => Promise.reject(http)))).toBe(http);
    const again = (await failureOf(once.run('a', options, () => 'other'))) as HttpException;
    expect([again.getStatus(), again.getResponse()]).toEqual([410, { reason: 'sold out' }]);
    await failureOf(once.run('b', options, () => Promise.reject(new RangeError('too many'))));
    expect(await failureOf(once.run('b', options, () => 'other'))).toMatchObject({
      name: 'RangeError',
      message: 'too many',
    });
  });

  it('the error of the work reaches the caller even if rememberFailure throws', async () => {
    const events = eventsOf(locks);
    const rememberFailure = () => {
      throw new Error('of the predicate');
    };
    const failing = once.run('a', { ...KEEP, rememberFailure }, () =>
      Promise.reject(new Error('of the work')),
    );
    expect(await failureOf(failing)).toMatchObject({ message: 'of the work' });
    expect(events).toContainEqual(expect.objectContaining({ type: 'error', during: 'rememberFailure' }));
  });

  it('a failure under a lost lock is not remembered: the successor decides', async () => {
    const options: OnceOptions = { ...KEEP, rememberFailure: () => true };
    const failing = once.run('a', options, async () => {
      await locks.forceRelease('once:a');
      throw new Error('late');
    });
    expect(await failureOf(failing)).toMatchObject({ message: 'late' });
    expect(await once.run('a', options, () => 'done')).toBe('done');
  });

  it('a stored result that cannot be read is an error with the key, and the work does not run again', async () => {
    await results.write('a', { token: 1, text: 'not JSON' }, 60_000);
    const error = await failureOf(once.run('a', KEEP, () => 'again'));
    expect(error).toMatchObject({
      code: 'ONCE_RESULT_LOST',
      key: 'a',
      message: expect.stringContaining('"a"'),
    });
  });

  it('another fingerprint under the same key is refused, and the order of properties does not matter', async () => {
    await once.run('a', { ...KEEP, fingerprint: { sku: 1, list: [{ x: 1, y: 2 }] } }, () => 'done');
    const same = { ...KEEP, fingerprint: { list: [{ y: 2, x: 1 }], sku: 1 } };
    expect(await once.run('a', same, () => 'other')).toBe('done');
    for (const fingerprint of [{ sku: 2 }, 'text', null, undefined, { sku: 1, list: [{ x: 1, y: 3 }] }]) {
      const error = await failureOf(once.run('a', { ...KEEP, fingerprint }, () => 'other'));
      expect(error).toMatchObject({ name: 'OnceError', code: 'ONCE_MISMATCH', key: 'a' });
    }
  });

  it('the fingerprint is stored as a hash alone', async () => {
    await once.run('a', { ...KEEP, fingerprint: { card: '4111 1111 1111 1111' } }, () => 'done');
    expect((await results.read('a'))?.text).not.toContain('4111');
  });

  it('a call that has waited for waitMs is refused, and the work goes on', async () => {
    const work = new Work();
    const first = once.run('a', KEEP, work.run);
    await until(() => work.runs === 1);
    for (const waitMs of [0, 20]) {
      const error = await failureOf(once.run('a', { ...KEEP, waitMs }, work.run));
      expect(error).toMatchObject({ name: 'OnceError', code: 'ONCE_RUNNING' });
    }
    work.finish();
    expect(await first).toBe('result 1');
  });

  it('a timeout of a lock inside the work is the error of the work', async () => {
    const lock = await locks.acquire('busy');
    const error = await failureOf(once.run('a', KEEP, () => locks.withLock('busy', { waitMs: 0 }, () => 1)));
    expect(error).toBeInstanceOf(LockWaitTimeoutError);
    await lock.release();
  });

  it('a call inside the work for the same key is refused, and does not wait for itself', async () => {
    const inner = () => once.run('a', KEEP, () => 'inner');
    expect(await failureOf(once.run('a', KEEP, inner))).toMatchObject({ code: 'LOCK_DEADLOCK' });
  });

  it('a call without a key is refused, and gets no result of another one', async () => {
    for (const key of [undefined, null, '', 7] as unknown as string[]) {
      for (const result of ['of the first', 'of the second'])
        expect(await failureOf(once.run(key, KEEP, () => result))).toMatchObject({ code: 'LOCK_KEY' });
      expect(await failureOf(once.forget(key))).toMatchObject({ code: 'LOCK_KEY' });
    }
  });

  it('the signal of a call that waits ends it', async () => {
    const work = new Work();
    const first = once.run('a', KEEP, work.run);
    await until(() => work.runs === 1);
    const leaving = new AbortController();
    const second = failureOf(once.run('a', { ...KEEP, signal: leaving.signal }, work.run));
    leaving.abort(new Error('gone'));
    expect(await second).toMatchObject({ message: 'gone' });
    work.finish();
    await first;
  });

  it('work whose lock was taken rejects, and stores nothing over the result of its successor', async () => {
    const work = new Work();
    const first = failureOf(once.run('a', KEEP, work.run));
    await until(() => work.runs === 1);
    await locks.forceRelease('once:a');
    expect(await once.run('a', KEEP, () => 'of the successor')).toBe('of the successor');
    work.finish();
    expect(await first).toMatchObject({ code: 'LOCK_LOST' });
    expect(await once.run('a', KEEP, () => 'other')).toBe('of the successor');
  });

  it('a call whose lock was taken while it looked for a result rejects, and does not work', async () => {
    const slow = new SlowResults(results);
    once = new OnceService(locks, { results: slow });
    const work = new Work();
    // It looks for a result, and once more under its lock.
    const first = slow.keepReply();
    const call = failureOf(once.run('a', KEEP, work.run));
    await first;
    const second = slow.keepReply();
    slow.reply();
    await second;
    await locks.forceRelease('once:a');
    slow.reply();
    expect(await call).toMatchObject({ code: 'LOCK_LOST' });
    expect(work.runs).toBe(0);
  });

  it('a result that is too long is lost for later calls, which do not run the work again', async () => {
    once = new OnceService(locks, { results, maxLength: 10 });
    const events = eventsOf(locks);
    expect(await once.run('a', KEEP, () => 'x'.repeat(20))).toBe('x'.repeat(20));
    const error = await failureOf(once.run('a', KEEP, () => 'other'));
    expect(error).toMatchObject({
      code: 'ONCE_RESULT_LOST',
      message: expect.stringContaining('22 characters'),
    });
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'warning', message: expect.stringContaining('"a"') }),
    );
  });

  it.each([
    ['a function', () => () => 1, 'a function'],
    ['a cycle', () => Object.assign({}, { self: undefined as unknown }, {}), ''],
    ['a bigint', () => 1n, 'BigInt'],
    ['a stream', () => Readable.from(['x']), 'a stream'],
  ])('the first caller gets a result that cannot be stored: %s', async (_, make, why) => {
    const result: unknown = make();
    if (why === '') (result as { self: unknown }).self = result;
    expect(await once.run('a', KEEP, () => result)).toBe(result);
    const error = await failureOf(once.run('a', KEEP, () => 'other'));
    expect(error).toMatchObject({ code: 'ONCE_RESULT_LOST', message: expect.stringContaining(why) });
  });

  it('a serializer may encrypt results and store values that JSON lacks', async () => {
    const serializer = {
      stringify: (value: unknown) => Buffer.from(String(value)).toString('base64'),
      parse: (text: string) => BigInt(Buffer.from(text, 'base64').toString()),
    };
    once = new OnceService(locks, { results, serializer });
    await once.run('a', KEEP, () => 42n);
    expect(await once.run('a', KEEP, () => 0n)).toBe(42n);
  });

  it('if storing fails, the caller gets the result, and the error is an event', async () => {
    const down: ResultStore = { ...results, write: () => Promise.reject(new Error('disk full')) };
    once = new OnceService(locks, { results: down });
    const events = eventsOf(locks);
    expect(await once.run('a', KEEP, () => 'done')).toBe('done');
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'error', key: 'a', during: 'storing the result' }),
    );
  });

  it('if reading fails, the call rejects and the work does not run', async () => {
    const down: ResultStore = { ...results, read: () => Promise.reject(new Error('disk gone')) };
    once = new OnceService(locks, { results: down });
    const work = new Work();
    expect(await failureOf(once.run('a', KEEP, work.run))).toMatchObject({ message: 'disk gone' });
    expect(work.runs).toBe(0);
  });

  it('a store that could not be prepared is prepared by the next call', async () => {
    let isDown = true;
    const prepare = async () => {
      if (isDown) throw new Error('database down');
    };
    once = new OnceService(locks, { results: { ...results, prepare } });
    expect(await failureOf(once.run('a', KEEP, () => 1))).toMatchObject({ message: 'database down' });
    isDown = false;
    expect(await once.run('a', KEEP, () => 1)).toBe(1);
  });

  it('a result is forgotten after keepForMs, and by forget()', async () => {
    await once.run('a', { keepForMs: 20 }, () => 1);
    await until(async () => (await once.run('a', KEEP, () => 2)) === 2);
    await once.forget('a');
    expect(await once.run('a', KEEP, () => 3)).toBe(3);
  });

  it('services with different key prefixes do not share results', async () => {
    const other = new OnceService(openServiceOn(memoryStore(), { keyPrefix: 'shop:' }), { results });
    await once.run('a', KEEP, () => 1);
    expect(await other.run('a', KEEP, () => 2)).toBe(2);
  });

  it('a minimum hold in the defaults of the module does not keep callers from the result', async () => {
    locks = openServiceOn(memoryStore(), { defaults: { holdAtLeastMs: 60_000 } });
    once = new OnceService(locks, { results });
    const work = new Work();
    const first = once.run('a', KEEP, work.run);
    await until(() => work.runs === 1);
    const second = once.run('a', KEEP, work.run);
    work.finish();
    expect(await Promise.all([first, second])).toEqual(['result 1', 'result 1']);
  });

  it('a limit of waiters in the defaults of the module refuses no caller that waits for a result', async () => {
    locks = openServiceOn(memoryStore(), { defaults: { maxWaiting: 1 } });
    once = new OnceService(locks, { results });
    const work = new Work();
    const first = once.run('a', KEEP, work.run);
    await until(() => work.runs === 1);
    const second = once.run('a', KEEP, work.run);
    await until(async () => (await locks.inspect('once:a'))?.pending.length === 1);
    const others = [1, 2].map(() => once.run('a', KEEP, work.run));
    await setImmediate();
    work.finish();
    expect(await Promise.all([first, second, ...others])).toEqual(Array(4).fill('result 1'));
  });

  it.each([
    [{}, 'keepForMs'],
    [{ keepForMs: 0 }, 'keepForMs'],
    [{ keepForMs: '1d' }, 'keepForMs'],
    [{ keepForMs: 1, ttl: 1 }, 'ttl'],
    [{ keepForMs: 1, rememberFailure: true }, 'rememberFailure'],
    [{ keepForMs: 1, waitMs: -1 }, 'waitMs'],
  ])('wrong options are refused: %j', async (options, name) => {
    const error = await failureOf(once.run('a', options as OnceOptions, () => 1));
    expect(error).toMatchObject({ code: 'LOCK_CONFIGURATION', message: expect.stringContaining(name) });
  });

  it('work that was done before gives its result, also while a read is under way that began before', async () => {
    // A transaction that was committed since the third call read has inserted the row.
    const slow = Object.assign(new SlowResults(results), { insert: async () => false });
    once = new OnceService(locks, { results: slow });
    const work = new Work();
    const second = once.outcomeOf('a', KEEP, async ({ rememberIn }) => {
      await work.run();
      await rememberIn(async () => [], 'mine');
    });
    await until(() => work.runs === 1);
    const third = once.outcomeOf('a', KEEP, work.run);
    await slow.keepReply();
    await results.write('a', { token: 1, text: JSON.stringify({ kind: 'value', text: '"before"' }) }, 60_000);
    work.finish();
    expect(await second).toEqual({ value: 'before', isReplay: true });
    slow.reply();
    expect(await third).toEqual({ value: 'before', isReplay: true });
  });

  it('rememberIn needs results in SQL, and work must be a function', async () => {
    const inMemory = once.run('a', KEEP, ({ rememberIn }) => rememberIn(async () => [], 1));
    expect(await failureOf(inMemory)).toMatchObject({ message: expect.stringContaining('sqlResults') });
    const none = once.run('a', KEEP, undefined as never);
    expect(await failureOf(none)).toMatchObject({ code: 'LOCK_CONFIGURATION' });
  });
});

describe('memoryResults', () => {
  it('drops the result that was stored first when there are too many', async () => {
    const results = memoryResults({ maxResults: 2 });
    for (const key of ['a', 'b', 'c']) await results.write(key, { token: 1, text: key }, 60_000);
    expect(await results.read('a')).toBeUndefined();
    expect(await results.read('c')).toEqual({ token: 1, text: 'c' });
  });
});
