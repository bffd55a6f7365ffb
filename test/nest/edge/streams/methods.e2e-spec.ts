import { Readable } from 'node:stream';
import type { UnderlyingByteSource } from 'node:stream/web';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  CurrentLock,
  LockConfigurationError,
  LockLostError,
  LockSignal,
  LockWaitTimeoutError,
  Locked,
  type Lock,
} from 'nestjs-distributed-lock';
import { of } from 'rxjs';
import { until } from '#until';
import { failureOf } from '../../../support/lock-services.js';
import { once } from '../support.js';
import { fresh } from '../traps/fresh.js';
import { KINDS, open, start } from './rows.js';

/** `[1].values().map(…)` on versions of Node that have it. */
function helper(): unknown {
  const values = [1].values() as unknown as { map?(change: (n: number) => number): unknown };
  return values.map?.((n) => n) ?? (function* () {})();
}

const unchecked = (decorator: unknown): MethodDecorator => decorator as MethodDecorator;

const text = (value: unknown): string =>
  typeof value === 'string' ? value : Buffer.from(value as Uint8Array).toString();

describe.each(KINDS)('a stream that a locked method gives: %s', (kind) => {
  it('runs under the lock, from whatever flow it is read, until its end', async () => {
    const { rows, isFree, events, locks } = await start();
    const stream = await open(rows, kind);
    const values: string[] = [];
    for (let step = await stream.next(); !step.done; step = await stream.next()) {
      values.push(text(step.value));
      expect(await isFree('rows')).toBe(false);
      expect(locks.current('rows')).toBeUndefined();
    }
    expect(values).toEqual(['1 rows rows', '2 rows rows', '3 rows rows']);
    await until(() => isFree('rows'));
    expect(rows.log).toEqual(['closed under the lock']);
    expect(events).toEqual(once('rows'));
  });

  it('holds it until it is left early, and is closed under it', async () => {
    const { rows, isFree } = await start();
    const stream = await open(rows, kind);
    expect(text((await stream.next()).value)).toBe('1 rows rows');
    await pause(5);
    expect(await isFree('rows')).toBe(false);
    await stream.return?.();
    await until(() => isFree('rows'));
    expect(rows.log).toEqual(['closed under the lock']);
  });

  it('tells its reader of a loss at once, and is closed', async () => {
    const { rows, locks } = await start();
    const stream = await open(rows, kind);
    await stream.next();
    await locks.forceRelease('rows');
    const readOn = async (): Promise<unknown> => {
      const { done } = await stream.next();
      return done ? 'ended as if nothing had happened' : readOn();
    };
    await expect(readOn()).rejects.toBeInstanceOf(LockLostError);
    await until(() => rows.log.length > 0);
  });
});

describe('an async generator that is locked', () => {
  it('acquires when it is read, so that one which is never read holds nothing', async () => {
    const { rows, isFree, events } = await start();
    const never = rows.generator();
    expect(Object.prototype.toString.call(never)).toBe('[object AsyncGenerator]');
    expect(await never.return('left')).toEqual({ done: true, value: 'left' });
    expect(await never.next()).toEqual({ done: true, value: undefined });
    expect([events, await isFree('rows')]).toEqual([[], true]);
  });

  it('gives its reader what it returns, an error in the middle, and throw()', async () => {
    @Injectable()
    class Talks {
      @Locked('talk')
      async *talk(): AsyncGenerator<string, string, string> {
        try {
          const said = yield 'hello';
          yield `you said ${said}`;
          throw new Error('in the middle');
        } catch (error) {
          yield `caught ${(error as Error).message}`;
          return 'end';
        }
      }

      @Locked('talk')
      async *fails(): AsyncGenerator<number> {
        yield 1;
        throw new Error('fails');
      }
    }
    const { app, isFree } = await fresh({ providers: [Talks] });
    const talk = app.get(Talks).talk();
    expect(await talk.next()).toEqual({ done: false, value: 'hello' });
    expect(await talk.next('hi')).toEqual({ done: false, value: 'you said hi' });
    expect(await talk.throw(new Error('of mine'))).toEqual({ done: false, value: 'caught of mine' });
    expect(await talk.next()).toEqual({ done: true, value: 'end' });
    await until(() => isFree('talk'));
    const fails = app.get(Talks).fails();
    await fails.next();
    await expect(fails.next()).rejects.toThrow('fails');
    expect(await fails.next()).toEqual({ done: true, value: undefined });
    await until(() => isFree('talk'));
  });

  it('shows nothing of its lock to whoever prints it or sends it as JSON', async () => {
    const { rows } = await start();
    const held = await rows.promised();
    expect(JSON.stringify([held, rows.generator()])).toBe('[{},{}]');
    expect(Object.keys(held)).toEqual([]);
    await held.return('');
  });

  it('waits in the queue with its first value, and gives up by waitMs', async () => {
    const { rows, locks, isFree } = await start();
    const mine = await locks.acquire('rows');
    await expect(rows.impatient().next()).rejects.toBeInstanceOf(LockWaitTimeoutError);
    const waiting = rows.generator().next();
    await mine.release();
    expect(await waiting).toEqual({ done: false, value: '1 rows rows' });
    expect(await isFree('rows')).toBe(false);
  });

  it('leaves the queue when it is returned in it', async () => {
    const { rows, locks } = await start();
    const happened: string[] = [];
    locks.events$.subscribe(({ type }) => happened.push(type));
    const mine = await locks.acquire('rows');
    const waiting = rows.generator();
    const first = waiting.next();
    await until(() => happened.filter((it) => it === 'asked').length === 2);
    await waiting.return('left');
    expect(await first).toEqual({ done: true, value: undefined });
    expect(happened).toContain('abandoned');
    expect(rows.log).toEqual([]);
    await mine.release();
  });

  it('answers several readers of it in order, and two of them exclude each other', async () => {
    const { rows } = await start();
    const one = rows.generator();
    const steps = await Promise.all([one.next(), one.next(), one.next(), one.next()]);
    expect(steps.map(({ value }) => value)).toEqual(['1 rows rows', '2 rows rows', '3 rows rows', 'all']);
    const [first, second] = [rows.generator(), rows.impatient()];
    await first.next();
    await expect(second.next()).rejects.toBeInstanceOf(LockWaitTimeoutError);
    await first.return('');
  });

  it('shares the lock of the flow that reads it', async () => {
    const { rows, locks, events } = await start();
    await locks.withLock('rows', async () => {
      for await (const row of rows.generator()) expect(row).toMatch(/rows rows$/);
    });
    expect(events).toEqual(once('rows'));
  });

  it('has its lock and signal in its arguments for as long as it runs', async () => {
    @Injectable()
    class Signalled {
      @Locked('signal', { onLost: 'ignore' })
      async *run(@CurrentLock() lock?: Lock, @LockSignal() signal?: AbortSignal): AsyncGenerator<unknown> {
        lock?.assertHeld();
        yield lock?.key;
        lock?.assertHeld();
        yield signal?.aborted;
        await until(() => signal?.aborted === true);
        yield 'kept although lost';
      }
    }
    const { app, locks } = await fresh({ providers: [Signalled] });
    const run = app.get(Signalled).run();
    expect([(await run.next()).value, (await run.next()).value]).toEqual(['signal', false]);
    const last = run.next();
    await locks.forceRelease('signal');
    expect(await last).toEqual({ done: false, value: 'kept although lost' });
    expect(await run.next()).toEqual({ done: true, value: undefined });
  });

  it('rejects a step that hangs when the lock is lost', async () => {
    @Injectable()
    class Hangs {
      @Locked('hangs')
      async *run(): AsyncGenerator<number> {
        yield 1;
        await new Promise(() => undefined);
      }
    }
    const { app, locks } = await fresh({ providers: [Hangs] });
    const run = app.get(Hangs).run();
    await run.next();
    const hanging = failureOf(run.next());
    await locks.forceRelease('hangs');
    expect(await hanging).toBeInstanceOf(LockLostError);
  });

  it('is decided on by when, and answered for by onBusy', async () => {
    @Injectable()
    class Some {
      @Locked('some', { when: (n: number) => n > 0 })
      async *run(_n: number, @CurrentLock() lock?: Lock): AsyncGenerator<unknown> {
        yield lock?.key ?? 'unlocked';
      }
      @Locked('some', { onBusy: 'skip' })
      async *skip(): AsyncGenerator<number> {
        yield 1;
      }
      @Locked('some', {
        waitMs: 0,
        onBusy: async function* (busy, n: number) {
          yield busy.code;
          yield n;
        },
      })
      async *other(_n: number): AsyncGenerator<unknown> {
        yield 1;
      }
      // @ts-expect-error a number cannot be iterated
      @Locked('some', { waitMs: 0, onBusy: () => 1 })
      async *wrong(): AsyncGenerator<number> {
        yield 1;
      }
    }
    const { app, locks } = await fresh({ providers: [Some] });
    const some = app.get(Some);
    const all = async (it: AsyncIterable<unknown>): Promise<unknown[]> => {
      const values: unknown[] = [];
      for await (const value of it) values.push(value);
      return values;
    };
    expect([await all(some.run(0)), await all(some.run(1))]).toEqual([['unlocked'], ['some']]);
    const mine = await locks.acquire('some');
    expect([await all(some.skip()), await all(some.other(7))]).toEqual([[], ['LOCK_WAIT_TIMEOUT', 7]]);
    await expect(all(some.wrong())).rejects.toBeInstanceOf(LockConfigurationError);
    await mine.release();
  });
});

describe('a web stream that is held', () => {
  it('stays one of bytes, for readers that bring their buffers', async () => {
    @Injectable()
    class Bytes {
      @Locked('bytes')
      async read(): Promise<ReadableStream<Uint8Array>> {
        let n = 0;
        return new ReadableStream({
          type: 'bytes',
          pull(controller: ReadableByteStreamController) {
            if (n++ < 3) controller.enqueue(new Uint8Array([n, n]));
            else {
              controller.close();
              controller.byobRequest?.respond(0);
            }
          },
        } as unknown as UnderlyingByteSource) as unknown as ReadableStream<Uint8Array>;
      }
    }
    const { app, isFree } = await fresh({ providers: [Bytes] });
    const reader = (await app.get(Bytes).read()).getReader({ mode: 'byob' });
    const read: number[] = [];
    for (;;) {
      const { done, value } = await reader.read(new Uint8Array(1));
      if (done) break;
      read.push(...value);
      expect(await isFree('bytes')).toBe(false);
    }
    expect(read).toEqual([1, 1, 2, 2, 3, 3]);
    await until(() => isFree('bytes'));
  });

  it('is held until both of its branches have ended, or were cancelled', async () => {
    const { rows, isFree } = await start();
    const [one, other] = (await rows.web()).tee();
    const values: string[] = [];
    for await (const value of one) values.push(value);
    expect(values).toHaveLength(3);
    await until(() => isFree('rows'));
    await other.cancel();
    const branches = (await rows.web()).tee();
    await Promise.all(branches.map((it) => it.cancel()));
    await until(() => isFree('rows'));
  });

  it('of a Response keeps what it says, whole or cloned, and read as a whole', async () => {
    const { rows, isFree } = await start();
    const response = await rows.response();
    expect([response.status, response.headers.get('x-rows'), response instanceof Response]).toEqual([
      202,
      'yes',
      true,
    ]);
    const clone = response.clone();
    expect(await isFree('rows')).toBe(false);
    expect(await Promise.all([response.text(), clone.text()])).toEqual(
      Array(2).fill('1 rows rows2 rows rows3 rows rows'),
    );
    await until(() => isFree('rows'));
  });

  it('of a Response with a stream of Node, as that of node-fetch, ends with that stream', async () => {
    const { locks, isFree } = await fresh({});
    const body = Readable.from(['all']);
    const response = { body, bodyUsed: false, [Symbol.toStringTag]: 'Response' };
    expect(await locks.withLock('answer', () => response)).toBe(response);
    expect(await isFree('answer')).toBe(false);
    expect(await body.toArray()).toEqual(['all']);
    await until(() => isFree('answer'));
  });
});

describe('what cannot be held', () => {
  it.each([
    [
      'a generator',
      function* (this: { readonly closed: () => void }): Generator<number> {
        yield 1;
      },
      'make it an async generator',
    ],
    ['an iterator helper', () => helper(), 'make it an async generator'],
    ['an Observable', () => of(1), 'stream: true'],
    ['an object that can be iterated', () => ({ async *[Symbol.asyncIterator]() {} }), 'and yield* it'],
  ] as const)('is refused, and given back: %s', async (_what, make, hint) => {
    @Injectable()
    class Gives {
      @unchecked(Locked('gives'))
      async give(): Promise<unknown> {
        return Reflect.apply(make, this, []);
      }
      @unchecked(Locked('gives', { when: () => false }))
      async giveUnlocked(): Promise<unknown> {
        return Reflect.apply(make, this, []);
      }
    }
    const { app, locks, isFree } = await fresh({ providers: [Gives] });
    for (const refused of [
      app.get(Gives).give(),
      app.get(Gives).giveUnlocked(),
      locks.withLock('gives', () => Reflect.apply(make, {}, []) as unknown),
    ]) {
      const error = await refused.catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect((error as Error).message).toContain(hint);
    }
    expect(await isFree('gives')).toBe(true);
  });

  it('does not include results that are complete: lists, sets, maps, buffers, lazy queries', async () => {
    const { locks, isFree } = await start();
    for (const result of [
      [1],
      new Set([1]),
      new Map(),
      Buffer.from('x'),
      'text',
      null,
      new Date(),
      [1].values(),
    ]) {
      expect(await locks.withLock('k', () => result as unknown)).toBe(result);
      expect(await isFree('k')).toBe(true);
    }
  });
});

describe('withLock', () => {
  it.each([
    ['read', (stream: Readable) => stream.toArray()],
    ['destroyed', (stream: Readable) => stream.destroy()],
  ])('gives back what a stream without a close event held, when it is %s', async (_, end) => {
    const { locks, isFree } = await start();
    const stream = await locks.withLock('k', () => Readable.from(['a'], { emitClose: false }));
    expect(await isFree('k')).toBe(false);
    await end(stream);
    await until(() => isFree('k'));
  });

  it('gives back what a stream held that fails, and does not destroy itself', async () => {
    const { locks, isFree } = await start();
    const fails = (): never => {
      throw new Error('fails');
    };
    const stream = await locks.withLock('k', () => new Readable({ autoDestroy: false, read: fails }));
    stream.on('error', () => undefined);
    expect(await isFree('k')).toBe(false);
    stream.resume();
    await until(() => isFree('k'));
    expect(stream.destroyed).toBe(false);
  });
});
