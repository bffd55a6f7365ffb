import { describe, expect, it } from '@jest/globals';
import { Controller, Get, Injectable, NotFoundException } from '@nestjs/common';
import { LockSignal, Locked, memoryStore } from 'nestjs-distributed-lock';
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
});
