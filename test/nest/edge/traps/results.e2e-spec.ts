import { describe, expect, it } from '@jest/globals';
import { Controller, Get, Injectable, NotFoundException } from '@nestjs/common';
import {
  LockLostError,
  LockSignal,
  LockStoreError,
  LockWaitTimeoutError,
  Locked,
  memoryStore,
} from 'nestjs-distributed-lock';
import { FaultyStore, type Faults } from 'nestjs-distributed-lock/testing';
import { until } from '#until';
import { fresh } from './fresh.js';

describe('what a method gives, and what its callers get', () => {
  it('an error keeps its class and status through two locked methods and a locked handler', async () => {
    @Injectable()
    class Shop {
      @Locked('outer')
      async outer(): Promise<never> {
        return this.inner();
      }

      @Locked('inner')
      async inner(): Promise<never> {
        throw new NotFoundException('no such item');
      }
    }
    @Controller()
    class Goods {
      constructor(private readonly shop: Shop) {}

      @Get()
      @Locked('handler')
      async read(): Promise<never> {
        return this.shop.outer();
      }
    }
    const { app, fetch } = await fresh({ controllers: [Goods], providers: [Shop] });
    await expect(app.get(Shop).outer()).rejects.toBeInstanceOf(NotFoundException);
    const answer = await fetch('/');
    expect(answer.status).toBe(404);
    expect(await answer.json()).toMatchObject({ message: 'no such item' });
  });

  it('an error of the method is not replaced by the loss of its lock', async () => {
    @Injectable()
    class Shop {
      @Locked('lost', { leaseMs: 50 })
      async sell(@LockSignal() signal?: AbortSignal): Promise<never> {
        await until(() => signal?.aborted === true);
        throw new NotFoundException('my own');
      }
    }
    const { app } = await fresh({ providers: [Shop] });
    await expect(app.get(Shop).sell()).rejects.toThrow('my own');
  });

  it('an error of a nested lock says once what happened', async () => {
    @Injectable()
    class Shop {
      @Locked('outer')
      async outer(): Promise<void> {
        return this.busy();
      }

      @Locked('busy', { waitMs: 0 })
      async busy(): Promise<void> {}
    }
    const { app, locks } = await fresh({ providers: [Shop] });
    const mine = await locks.acquire('busy');
    const error = await app
      .get(Shop)
      .outer()
      .catch((thrown: Error) => thrown);
    expect((error as Error).message.match(/is not free/g)).toHaveLength(1);
    await mine.release();
  });

  it('a method that throws at once rejects, and gives the lock back', async () => {
    @Injectable()
    class Shop {
      @Locked('sync')
      sell(): Promise<never> {
        throw new NotFoundException('at once');
      }
    }
    const { app, isFree } = await fresh({ providers: [Shop] });
    await expect(app.get(Shop).sell()).rejects.toThrow('at once');
    expect(await isFree('sync')).toBe(true);
  });

  it.each([
    ['a result', (): Promise<string> => Promise.resolve('sold'), 'sold'],
    [
      'an error',
      (): Promise<string> => Promise.reject(new NotFoundException('no such item')),
      'no such item',
    ],
  ] as const)('%s is not replaced by a release that fails', async (_what, work, expected) => {
    const faults: Faults = {};
    @Injectable()
    class Shop {
      @Locked('broken')
      async sell(): Promise<string> {
        faults.command = ({ kind }) =>
          kind === 'release' ? { executedAfterMs: [], repliedAfterMs: 'never' } : undefined;
        return work();
      }
    }
    const store = new FaultyStore(memoryStore(), faults);
    const { app } = await fresh({ providers: [Shop], options: { store } });
    const outcome = await app
      .get(Shop)
      .sell()
      .catch((error: Error) => error.message);
    expect(outcome).toBe(expected);
    delete faults.command;
  });

  it('releasing what was lost ends at once, and a loss that is ignored keeps the result', async () => {
    const { locks, isFree } = await fresh({});
    const lock = await locks.acquire('taken');
    await locks.forceRelease('taken');
    expect(await lock.release()).not.toBe('released');
    const work = async (): Promise<string> => {
      await locks.forceRelease('taken');
      return 'done';
    };
    expect(await locks.withLock('taken', { onLost: 'ignore' }, work)).toBe('done');
    await until(() => isFree('taken'));
  });

  it("onBusy: 'skip' does not swallow a lock error of the method itself", async () => {
    @Injectable()
    class Shop {
      @Locked('job', { onBusy: 'skip' })
      async run(): Promise<string | undefined> {
        return this.part();
      }

      @Locked('part', { waitMs: 0 })
      async part(): Promise<string> {
        return 'done';
      }
    }
    const { app, locks } = await fresh({ providers: [Shop] });
    const mine = await locks.acquire('part');
    await expect(app.get(Shop).run()).rejects.toBeInstanceOf(LockWaitTimeoutError);
    await mine.release();
    expect(await app.get(Shop).run()).toBe('done');
  });

  it('a busy key, a store that is away and a lost lock are three different errors', async () => {
    const faults: Faults = {};
    const store = new FaultyStore(memoryStore(), faults);
    const { locks } = await fresh({ options: { store } });
    const mine = await locks.acquire('k');
    const lost = locks.withLock('lost', { leaseMs: 20 }, (lock) => until(() => lock.signal.aborted));
    const answers = [locks.acquire('k', { waitMs: 20 }), lost];
    const kinds = await Promise.all(answers.map((it) => it.catch((error: Error) => error.constructor)));
    expect(kinds).toEqual([LockWaitTimeoutError, LockLostError]);
    faults.command = () => ({ executedAfterMs: [], repliedAfterMs: 'never' });
    await expect(locks.acquire('other', { waitMs: 20 })).rejects.toBeInstanceOf(LockStoreError);
    delete faults.command;
    await mine.release();
  });

  it('a renewal that fails once costs neither the lock nor the process', async () => {
    const faults: Faults = {};
    const store = new FaultyStore(memoryStore(), faults);
    const { locks } = await fresh({ options: { store, watchdogTimeoutMs: 1000 } });
    const happened: string[] = [];
    locks.events$.subscribe(({ type }) => happened.push(type));
    const lock = await locks.acquire('k');
    faults.command = ({ kind }) =>
      kind === 'renew' ? { executedAfterMs: [], repliedAfterMs: 'never' } : undefined;
    await until(() => happened.includes('suspended'));
    delete faults.command;
    await until(() => happened.includes('resumed'));
    lock.assertHeld();
    expect(await lock.release()).toBe('released');
  });
});
