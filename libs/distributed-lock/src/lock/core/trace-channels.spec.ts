import { AsyncLocalStorage } from 'node:async_hooks';
import { type TracingChannel, tracingChannel } from 'node:diagnostics_channel';
import { afterEach, describe, expect, it } from '@jest/globals';
import { follow } from '../../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../../test/support/world-per-test.js';
import { memoryStore } from '../../memory/store.js';
import { LockLostError, LockWaitTimeoutError } from '../../port/lock.errors.js';
import { LockService } from '../lock.service.js';
import type { HeldLock } from './held-lock.js';
import type { LockAcquireMessage, LockHoldMessage } from './trace-channels.js';

const ACQUIRE = tracingChannel<unknown, LockAcquireMessage>('nestjs-distributed-lock:acquire');
const HOLD = tracingChannel<unknown, LockHoldMessage>('nestjs-distributed-lock:hold');
type Message = LockAcquireMessage | LockHoldMessage;

const undo: (() => void)[] = [];
const stopListening = () => undo.splice(0).forEach((each) => each());

/** All that both channels publish from now on, as `hold.asyncEnd k`. */
function listen() {
  const seen: string[] = [];
  const messages = new Map<string, Message>();
  for (const [name, channel] of Object.entries({ acquire: ACQUIRE, hold: HOLD })) {
    const on = (step: string) => (message: Message) => {
      seen.push(`${name}.${step} ${message.keys.join()}`);
      messages.set(`${name} ${message.keys.join()}`, message);
    };
    const listeners = {
      start: on('start'),
      end: on('end'),
      asyncStart: on('asyncStart'),
      asyncEnd: on('asyncEnd'),
      error: on('error'),
    };
    channel.subscribe(listeners);
    undo.push(() => channel.unsubscribe(listeners));
  }
  return { seen, message: (name: string) => messages.get(name) };
}

const WHOLE = ['start', 'end', 'asyncStart', 'asyncEnd'];
const steps = (operation: string, key: string, names = WHOLE) =>
  names.map((step) => `${operation}.${step} ${key}`);

describe('the tracing channels of locks', () => {
  afterEach(stopListening);

  it('show the wait and the hold of withLock, each with its times', async () => {
    const held = await world.take(other, 'k');
    const { seen, message } = listen();
    const call = follow(
      locks.withLock('k', { site: 'report', mode: 'exclusive' }, async (lock) => {
        expect(seen).toEqual([...steps('acquire', 'k'), 'hold.start k']);
        await new Promise<void>((done) => void world.clock.after(50, done));
        return { owner: lock.owner, fencingToken: lock.fencingToken };
      }),
    );
    await world.clock.advance(70);
    expect(seen).toEqual(steps('acquire', 'k', ['start', 'end']));
    await held.release();
    await world.clock.advance(100);
    expect(seen).toEqual([...steps('acquire', 'k'), ...steps('hold', 'k')]);
    const common = { registration: 'default', key: 'k', keys: ['k'], mode: 'exclusive', site: 'report' };
    expect(message('acquire k')).toEqual({ ...common, ...call.value, waitedMs: 70 });
    expect(message('hold k')).toEqual({ ...common, ...call.value, heldMs: 50 });
  });

  it('show a wait that ends without the lock, and no hold', async () => {
    await world.take(other, 'k');
    const { seen, message } = listen();
    const call = follow(locks.acquire('k', { waitMs: 30 }));
    await world.clock.advance(1000);
    expect(call.error).toBeInstanceOf(LockWaitTimeoutError);
    expect(seen).toEqual(steps('acquire', 'k', ['start', 'end', 'error', 'asyncStart', 'asyncEnd']));
    expect(message('acquire k')).toMatchObject({ error: call.error, waitedMs: 30 });
  });

  it('show a wait whose caller aborts without a reason', async () => {
    await world.take(other, 'k');
    const { message } = listen();
    const signal = Object.assign(new EventTarget(), { aborted: false, reason: undefined });
    const call = follow(locks.acquire('k', { signal: signal as unknown as AbortSignal }));
    signal.dispatchEvent(new Event('abort'));
    await world.clock.advance(10);
    expect(call.state).toBe('rejected');
    expect(message('acquire k')).toMatchObject({ error: undefined, waitedMs: 0 });
  });

  it('end the hold of a lost lock with the loss, when it is noticed, and only once', async () => {
    const { seen, message } = listen();
    const lock = await world.take(locks, 'k', { leaseMs: 1000 });
    seen.length = 0;
    await world.clock.advance(2000);
    expect(seen).toEqual(steps('hold', 'k', ['error', 'asyncStart', 'asyncEnd']));
    const { error, heldMs } = message('hold k') as LockHoldMessage;
    expect(error).toBeInstanceOf(LockLostError);
    expect(heldMs).toBeLessThanOrEqual(1000);
    await lock.release();
    expect(seen).toHaveLength(3);
  });

  it('end the hold without an error when the work fails', async () => {
    const { seen, message } = listen();
    const failing = locks.withLock('k', () => Promise.reject(new Error('the work')));
    await expect(failing).rejects.toThrow('the work');
    expect(seen).toEqual([...steps('acquire', 'k'), ...steps('hold', 'k')]);
    expect(message('hold k')).not.toHaveProperty('error');
  });

  it('show a call of several keys once, with its keys in the order of the call', async () => {
    const { seen, message } = listen();
    const owner = await locks.withLock(['b', 'a'], (lock) => lock.owner);
    expect(seen).toEqual([...steps('acquire', 'b,a'), ...steps('hold', 'b,a')]);
    expect(message('hold b,a')).toMatchObject({ key: 'b', owner });
    expect(message('hold b,a')).not.toHaveProperty('fencingToken');
  });

  it('show no nested call that only shares a lock', async () => {
    const { seen } = listen();
    await locks.withLock('a', () => locks.withLock(['a', 'b'], () => locks.withLock(['b', 'a'], () => 0)));
    expect(new Set(seen)).toEqual(
      new Set(['a', 'a,b'].flatMap((keys) => [...steps('acquire', keys), ...steps('hold', keys)])),
    );
  });

  it('name the line of an acquire, and hold until its release', async () => {
    const { seen, message } = listen();
    const lock = await locks.acquire('k');
    expect(message('hold k')?.site).toMatch(/trace-channels\.spec\.ts:\d+$/);
    expect(seen).toEqual([...steps('acquire', 'k'), ...steps('hold', 'k', ['start', 'end'])]);
    await lock.release();
    expect(seen.slice(6)).toEqual(steps('hold', 'k', ['asyncStart', 'asyncEnd']));
  });

  it('put nothing on a lock without a subscriber, and nothing on one that was granted before', async () => {
    const lock = (await locks.acquire('k')) as HeldLock;
    expect(lock.trace).toBeUndefined();
    const { seen } = listen();
    await lock.release();
    expect(seen).toEqual([]);
  });

  it('tell a subscriber of one channel alone', async () => {
    const seen: string[] = [];
    const listener = () => void seen.push('hold');
    HOLD.asyncEnd.subscribe(listener);
    undo.push(() => HOLD.asyncEnd.unsubscribe(listener));
    await locks.withLock('k', () => 0);
    expect(seen).toEqual(['hold']);
  });
});

/** As a tracer does it: the store of a context is its active span, and a span is made where an operation starts. */
class Tracer {
  readonly active = new AsyncLocalStorage<Span>();
  readonly spans: Span[] = [];
  private readonly open = new Map<object, Span>();

  trace<M extends Message>(channel: TracingChannel<Span, M>, name: string): void {
    channel.start.bindStore(this.active, (message) => {
      const span = { name: `${name} ${message.key}`, parent: this.active.getStore()?.name, isEnded: false };
      this.spans.push(span);
      this.open.set(message, span);
      return span;
    });
    const onEnd = (message: unknown): void => {
      const span = this.open.get(message as M);
      if (span) span.isEnded = true;
    };
    channel.asyncEnd.subscribe(onEnd);
    undo.push(() => {
      channel.start.unbindStore(this.active);
      channel.asyncEnd.unsubscribe(onEnd);
    });
  }

  within<T>(name: string, work: () => T): T {
    return this.active.run({ name, parent: undefined, isEnded: false }, work);
  }
}

interface Span {
  readonly name: string;
  readonly parent: string | undefined;
  isEnded: boolean;
}

function tracer(): Tracer {
  const made = new Tracer();
  made.trace(tracingChannel<Span, LockAcquireMessage>('nestjs-distributed-lock:acquire'), 'acquire');
  made.trace(tracingChannel<Span, LockHoldMessage>('nestjs-distributed-lock:hold'), 'hold');
  return made;
}

describe('a tracer on the channels', () => {
  afterEach(stopListening);

  it('sees the wait and the hold under the span of the call, and the work inside the hold', async () => {
    const { active, spans, within } = bound(tracer());
    const service = new LockService({ store: memoryStore() });
    const holder = await service.acquire('k');
    const inside: (string | undefined)[] = [];
    const note = () => void inside.push(active.getStore()?.name);
    const calls = ['one', 'two'].map((request) =>
      within(request, async () => {
        await service.withLock('k', async () => {
          note();
          await Promise.resolve();
          await service.withLock('inner', note);
          note();
        });
        note();
      }),
    );
    await holder.release();
    await Promise.all(calls);
    await service.close();
    const ofCall = (request: string) => [
      { name: 'acquire k', parent: request, isEnded: true },
      { name: 'hold k', parent: request, isEnded: true },
    ];
    const ofInner = ['acquire inner', 'hold inner'].map((name) => ({
      name,
      parent: 'hold k',
      isEnded: true,
    }));
    const expected = [...ofCall('one'), ...ofInner, ...ofCall('two'), ...ofInner];
    // The first two are those of the holder.
    expect(sorted(spans.slice(2))).toEqual(sorted(expected));
    expect(inside).toEqual(['one', 'two'].flatMap((it) => ['hold k', 'hold inner', 'hold k', it]));
  });

  it('finds the code after an acquire in its own span, and the work of lock.run there, too', async () => {
    const { active, spans, within } = bound(tracer());
    await within('request', async () => {
      const lock = await locks.acquire('k');
      expect(active.getStore()?.name).toBe('request');
      await lock.run(() => expect(active.getStore()?.name).toBe('request'));
      await lock.release();
    });
    expect(spans).toEqual(
      ['acquire k', 'hold k'].map((name) => ({ name, parent: 'request', isEnded: true })),
    );
  });
});

function bound(it: Tracer) {
  return { active: it.active, spans: it.spans, within: it.within.bind(it) };
}

function sorted(spans: readonly Span[]): readonly string[] {
  return spans.map((span) => JSON.stringify(span)).toSorted();
}
