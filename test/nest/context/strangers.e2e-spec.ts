import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { LockService, type Lock } from 'nestjs-distributed-lock';
import { failureOf } from '../../support/lock-services.js';
import { until } from '#until';
import { STORES, inRequest, requestNow } from './support/requests.js';

let count = 0;

/** A busy machine lets a holder listen before a lease of this length runs out. */
const LEASE_MS = 1000;

/** The event loop stands still, as in a long piece of code. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

describe.each(STORES)('async contexts on %s', (name, makeStore) => {
  let service: LockService;
  let key: string;
  let first: Lock;

  beforeEach(async () => {
    key = `context:${name}:${process.pid}:${++count}`;
    service = new LockService({ store: makeStore(), shutdownGraceMs: 0, watchdogTimeoutMs: 3000 });
    // Its call opens the connections, and starts the watchdog and what else there is one of.
    first = await inRequest('first', () => service.acquire(`${key}:first`));
  });
  afterEach(() => service.close());

  /** Holds the key for a request until it is lost. @returns what `listen` has made */
  const losing = async <T>(listen: (lock: Lock) => T): Promise<T> => {
    const lock = await inRequest('second', () => service.acquire(key));
    const made = inRequest('second', () => listen(lock));
    await inRequest('operator', () => service.forceRelease(key));
    await until(() => !lock.validForMs);
    return made;
  };

  it('every kind of listener of a loss runs in the request that has added it', async () => {
    const seen: unknown[] = [];
    const note = () => seen.push(requestNow());
    await losing(({ signal }) => {
      signal.addEventListener('abort', note);
      signal.addEventListener('abort', { handleEvent: note });
      signal.onabort = note;
      AbortSignal.any([signal]).addEventListener('abort', note);
    });
    await until(() => seen.length === 4);
    expect(seen).toEqual(['second', 'second', 'second', 'second']);
  });

  it('of several requests that listen to one lock each is told in its own', async () => {
    const seen: unknown[] = [];
    const removed = () => seen.push('removed');
    await losing(({ signal }) => {
      for (const request of ['one', 'two', 'three'])
        inRequest(request, () => signal.addEventListener('abort', () => seen.push(requestNow())));
      signal.addEventListener('abort', removed);
      signal.removeEventListener('abort', removed);
    });
    await until(() => seen.length === 3);
    expect(seen).toEqual(['one', 'two', 'three']);
  });

  it('a listener of a lease that runs out runs in its own request, also for several keys', async () => {
    const seen: unknown[] = [];
    const note = () => seen.push(requestNow());
    const listen = async (request: string, keys: string | string[]) => {
      const { signal } = await inRequest(request, () => service.acquire(keys, { leaseMs: LEASE_MS }));
      inRequest(request, () => signal.addEventListener('abort', note));
    };
    await listen('second', key);
    await listen('third', [`${key}:a`, `${key}:b`]);
    await until(() => seen.length === 2);
    expect(new Set(seen)).toEqual(new Set(['second', 'third']));
  });

  it('a listener of a loss that another request finds out does not share the lock of that request', async () => {
    const lock = await inRequest('second', () => service.acquire(key, { leaseMs: LEASE_MS }));
    const told = inRequest(
      'second',
      () =>
        new Promise<unknown>((resolve) => {
          lock.signal.addEventListener('abort', () => {
            const taking = service.withLock(`${key}:first`, { waitMs: 500 }, () => 'shared');
            resolve(failureOf(taking).then((failure) => ({ failure, request: requestNow() })));
          });
        }),
    );
    await inRequest('first', () =>
      first.run(() => {
        block(LEASE_MS + 50);
        return lock.validForMs;
      }),
    );
    expect(await told).toMatchObject({ failure: { code: 'LOCK_WAIT_TIMEOUT' }, request: 'second' });
  });

  it('a listener of events runs in the request that has subscribed it, whichever call they are about', async () => {
    const seen = new Set<unknown>();
    inRequest('watcher', () => service.events$.subscribe(() => seen.add(requestNow())));
    await losing(() => undefined);
    await inRequest('third', () => service.withLock(key, () => undefined));
    const lock = await inRequest('fourth', () => service.acquire(key, { leaseMs: LEASE_MS }));
    await failureOf(inRequest('fifth', () => service.acquire(key, { waitMs: 10 })));
    await until(() => !lock.validForMs);
    expect([...seen]).toEqual(['watcher']);
  });

  it('a call goes on in its own request, whoever hands the lock to it', async () => {
    const seen: unknown[] = [];
    const turns = ['second', 'third', 'fourth'].map((request) =>
      inRequest(request, () =>
        service.withLock(key, async () => {
          seen.push(requestNow());
          await pause(5);
        }),
      ),
    );
    await Promise.all(turns);
    expect(seen).toEqual(['second', 'third', 'fourth']);
  });
});
