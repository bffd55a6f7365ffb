import { setTimeout as pause } from 'node:timers/promises';
import { AsyncLocalStorage } from 'node:async_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type CallOptions, type Lock, LockService } from 'nestjs-distributed-lock';
import { inRequest, requestNow, STORES } from './support/requests.js';

/** One request: what it asks for and when, and what it does to others while it holds. */
interface Caller {
  readonly at: number;
  readonly key: number;
  readonly options: CallOptions;
  readonly holdMs: number;
  readonly how: 'withLock' | 'acquire' | 'several';
  /** On another key, in the context of its own request. */
  readonly deed: 'none' | 'force' | 'abort' | 'read';
  /** Where it is found out that a lease is over: in a long turn of some request. */
  readonly blocks: boolean;
}

const KEYS = 3;

const caller: fc.Arbitrary<Caller> = fc.record({
  at: fc.nat({ max: 60 }),
  key: fc.nat({ max: KEYS - 1 }),
  options: fc.constantFrom<CallOptions>(
    {},
    {},
    { leaseMs: 50 },
    { fair: true },
    { mode: 'shared' },
    { waitMs: 20 },
    { holdAtLeastMs: 30 },
  ),
  holdMs: fc.constantFrom(0, 1, 10, 80),
  how: fc.constantFrom('withLock' as const, 'acquire' as const, 'several' as const),
  deed: fc.constantFrom('none' as const, 'force' as const, 'abort' as const, 'read' as const),
  blocks: fc.constantFrom(true, false, false, false),
});

let run = 0;

/** Runs all callers, each as a request of its own, and shuts down in the middle. @returns what saw another request */
async function storm(service: LockService, callers: readonly Caller[]): Promise<string[]> {
  const prefix = `storm:${process.pid}:${++run}`;
  const keyOf = (key: number) => `${prefix}:${key % KEYS}`;
  const strangers: string[] = [];
  const locks: Lock[] = [];
  const leavings = callers.map(() => new AbortController());

  const call = async (caller: Caller, i: number): Promise<void> => {
    const me = `request ${i}`;
    const check = (where: string) => (): void => {
      const now = requestNow();
      if (now !== me) strangers.push(`${where} of ${me} saw ${now}`);
    };
    const keys = caller.how === 'several' ? [keyOf(caller.key), keyOf(caller.key + 1)] : keyOf(caller.key);
    const work = async (lock: Lock): Promise<void> => {
      check('work')();
      locks.push(lock);
      lock.signal.addEventListener('abort', check('a listener'));
      lock.signal.addEventListener('abort', () => {
        const mine = service.current();
        if (mine !== undefined) strangers.push(`a listener of ${me} held ${mine.key}`);
      });
      AbortSignal.any([lock.signal]).addEventListener('abort', check('a listener of a joined signal'));
      await pause(caller.holdMs / 2);
      const victim = (i * 7 + 3) % callers.length;
      if (caller.deed === 'force') await service.forceRelease(keyOf(caller.key + 1)).catch(() => undefined);
      if (caller.deed === 'abort') leavings[victim]?.abort();
      if (caller.blocks) for (const end = performance.now() + 60; performance.now() < end;);
      if (caller.deed === 'read') await pause(locks.filter(({ validForMs }) => validForMs > 0).length);
      await pause(caller.holdMs / 2);
      check('work after a pause')();
    };
    const watching = service.events$.subscribe(check('a listener of events'));
    const options = { ...caller.options, signal: leavings[i]?.signal };
    try {
      await pause(caller.at);
      if (caller.how === 'acquire') {
        const lock = await service.acquire(keys, options);
        await lock.run(() => work(lock));
        await lock.release();
      } else await service.withLock(keys, options, work);
    } catch {
      // Lost, timed out, aborted or shut down: here it is only asked where it is told.
    }
    check('what follows a call')();
    watching.unsubscribe();
  };

  const calls = callers.map((each, i) => inRequest(`request ${i}`, () => call(each, i)));
  await inRequest('shutdown', () => pause(120).then(() => service.close()));
  await Promise.all(calls);
  return strangers;
}

describe('storms of requests', () => {
  it.each(STORES)(
    'whatever happens to locks, code of the application sees its own request: %s',
    async (_name, makeStore) => {
      await fc.assert(
        fc.asyncProperty(fc.array(caller, { minLength: 2, maxLength: 16 }), async (callers) => {
          const options = { store: makeStore(), shutdownGraceMs: 20, watchdogTimeoutMs: 1500 };
          expect(await storm(new LockService(options), callers)).toEqual([]);
        }),
        { numRuns: 15, endOnFailure: true },
      );
    },
    60_000,
  );
});

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
const requests = new AsyncLocalStorage<object>();

/** Runs `work` as a request, and keeps nothing of it. @returns what tells whether the request is still in memory */
async function request(work: () => Promise<unknown>): Promise<() => boolean> {
  const store = { payload: '…'.repeat(1000) };
  const ref = new WeakRef(store);
  await requests.run(store, work);
  return () => ref.deref() !== undefined;
}

/** Whether they go while the event loop turns and garbage is collected. */
async function areCollected(isThere: () => boolean): Promise<boolean> {
  for (let turn = 0; turn < 50 && isThere(); turn++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    collect();
  }
  return !isThere();
}

let count = 0;

describe.each(STORES)('the memory of requests on %s', (name, makeStore) => {
  const services: LockService[] = [];
  const keep: Lock[] = [];
  const open = (): LockService => {
    const service = new LockService({ store: makeStore(), shutdownGraceMs: 0, watchdogTimeoutMs: 3000 });
    services.push(service);
    return service;
  };
  const newKey = (): string => `memory:${name}:${process.pid}:${++count}`;
  afterEach(async () => {
    keep.splice(0);
    await Promise.all(services.splice(0).map((service) => service.close()));
  });

  it('a request that is over is not kept by what its call has started for all', async () => {
    const service = open();
    const key = newKey();
    const isFirstThere = await request(() =>
      service.withLock([`${key}:a`, `${key}:b`], () => service.withLock(key, () => undefined)),
    );
    keep.push(await service.acquire(key), await service.acquire(`${key}:c`, { leaseMs: 60_000 }));
    expect(await areCollected(isFirstThere)).toBe(true);
  });

  it('a request that has left the queue is not kept by the queue', async () => {
    const service = open();
    const key = newKey();
    const holder = await service.acquire(key);
    const leaving = new AbortController();
    const waiting = request(() =>
      service.acquire(key, { signal: leaving.signal, waitMs: Infinity }).catch(() => undefined),
    );
    const next = service.acquire(key, { waitMs: Infinity });
    leaving.abort();
    expect(await areCollected(await waiting)).toBe(true);
    await holder.release();
    keep.push(await next);
  });

  it('a request that is over is not kept by the time for which its key stays taken', async () => {
    const service = open();
    const key = newKey();
    const isThere = await request(async () => {
      await service.withLock(key, { holdAtLeastMs: 30_000 }, () => undefined);
      await service.inspect(key);
      await service.tryAcquire(key);
    });
    expect(await areCollected(isThere)).toBe(true);
  });
});
