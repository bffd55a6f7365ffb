import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from '@jest/globals';
import { Controller, Get, Inject, Injectable, Param } from '@nestjs/common';
import {
  LockWaitTimeoutError,
  Locked,
  memoryStore,
  type LockStore,
  type LockStoreFactory,
} from 'nestjs-distributed-lock';
import { ManualClock } from 'nestjs-distributed-lock/testing';
import { failureOf } from '../../../support/lock-services.js';
import { Stage } from '../../integration/stage.js';
import { until } from '#until';
import { fresh } from './fresh.js';

const WATCHDOG_MS = 200;

/** A store in memory, and how often it was asked for what. */
function counted() {
  const count = { acquire: 0, renew: 0 };
  const factory: LockStoreFactory = {
    create(context) {
      const store = memoryStore().create(context);
      return new Proxy<LockStore>(store, {
        get(target, name) {
          if (name === 'acquire' || name === 'renew') count[name] += 1;
          const value: unknown = Reflect.get(target, name);
          return typeof value === 'function' ? (value.bind(target) as unknown) : value;
        },
      });
    },
  };
  const clock = new ManualClock();
  return { count, clock, options: { store: factory, watchdogTimeoutMs: WATCHDOG_MS, clock } };
}

describe('waiting and holding', () => {
  it('a method that runs for several leases is not entered by a second caller', async () => {
    @Injectable()
    class Shop {
      constructor(@Inject(Stage) private readonly stage: Stage) {}

      @Locked('long', { waitMs: 100 })
      async sell(): Promise<string> {
        await this.stage.reach('long');
        return 'sold';
      }
    }
    const { count, clock, options } = counted();
    const { app, stage } = await fresh({ providers: [Shop], options });
    const first = app.get(Shop).sell();
    await until(() => stage.isAt('long'));
    while (count.renew <= 6) await clock.advance(WATCHDOG_MS / 10);
    const second = failureOf(app.get(Shop).sell());
    await clock.advance(100);
    expect(await second).toBeInstanceOf(LockWaitTimeoutError);
    stage.go('long');
    expect(await first).toBe('sold');
  });

  it('waitMs: 0 asks once although the default is to wait', async () => {
    const { locks } = await fresh({});
    const mine = await locks.acquire('zero');
    const asked = performance.now();
    await expect(locks.acquire('zero', { waitMs: 0 })).rejects.toThrow('Give waitMs to wait for it.');
    expect(performance.now() - asked).toBeLessThan(locks.options.waitMs / 2);
    await mine.release();
  });

  it('a lock that was waited for has its whole lease before it', async () => {
    const { locks } = await fresh({});
    const mine = await locks.acquire('late');
    const theirs = locks.acquire('late', { leaseMs: 60_000 });
    await new Promise((resolve) => setTimeout(resolve, 200));
    await mine.release();
    const lock = await theirs;
    expect(lock.validForMs).toBeGreaterThan(45_000);
    expect(lock.signal.aborted).toBe(false);
    await lock.release();
  });

  it('a released lock is renewed no more', async () => {
    const { count, clock, options } = counted();
    const { locks } = await fresh({ options });
    const lock = await locks.acquire('over');
    await clock.advance(WATCHDOG_MS);
    const before = count.renew;
    expect(before).toBeGreaterThan(0);
    await lock.release();
    await clock.advance(2 * WATCHDOG_MS);
    expect(count.renew).toBe(before);
  });

  it('two requests of one process exclude each other, whatever context they come from', async () => {
    const requests = new AsyncLocalStorage<string>();
    @Controller()
    class Goods {
      inside = 0;

      @Get(':id')
      @Locked('one')
      async read(@Param('id') id: string): Promise<string> {
        const among = ++this.inside;
        await new Promise((resolve) => setTimeout(resolve, 10));
        this.inside -= 1;
        return `${requests.getStore()} ${id} ${among}`;
      }
    }
    const { fetch } = await fresh({
      controllers: [Goods],
      prepare: (app) =>
        app.use((request: { url: string }, _response: unknown, next: () => void) =>
          requests.run(`request ${request.url}`, next),
        ),
    });
    const answers = await Promise.all(['1', '2', '3'].map(async (id) => (await fetch(`/${id}`)).text()));
    expect(answers).toEqual(['request /1 1 1', 'request /2 2 1', 'request /3 3 1']);
  });

  it('a caller that gets the lock from another one goes on in its own context', async () => {
    const contexts = new AsyncLocalStorage<string>();
    @Injectable()
    class Shop {
      constructor(@Inject(Stage) private readonly stage: Stage) {}

      @Locked('context')
      async sell(who: string): Promise<string> {
        if (who === 'first') await this.stage.reach('inside');
        return `${who} in ${contexts.getStore()}`;
      }
    }
    const { app, stage } = await fresh({ providers: [Shop] });
    const first = contexts.run('one', () => app.get(Shop).sell('first'));
    await until(() => stage.isAt('inside'));
    const second = contexts.run('two', () => app.get(Shop).sell('second'));
    stage.go('inside');
    expect(await Promise.all([first, second])).toEqual(['first in one', 'second in two']);
  });
});
