import { AsyncLocalStorage } from 'node:async_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, describe, expect, it } from '@jest/globals';
import { LockService, type Lock } from 'nestjs-distributed-lock';
import { STORES } from './support/requests.js';

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
