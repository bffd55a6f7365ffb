import { expect, it } from '@jest/globals';
import { eventsOf } from '../../../../../test/support/events.js';
import { follow } from '../../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../../test/support/world-per-test.js';
import { LockShutdownError } from '../../port/lock.errors.js';
import type { Lock } from '../lock.js';
import type { LockEvent } from './lock.events.js';
import { ServiceInternals } from './service-internals.js';

type TypeOf = LockEvent['type'];

/** Does `what` at the first event of this type, in the middle of what the service does. */
function at(type: TypeOf, what: (event: LockEvent) => void, isIt?: (event: LockEvent) => boolean): void {
  const listening = locks.events$.subscribe((event) => {
    if (event.type !== type || isIt?.(event) === false) return;
    listening.unsubscribe();
    what(event);
  });
}

/** Resolves when the clock of the world has moved on. Work that took no time would be over before another caller enters. */
const pass = (ms: number) => new Promise<void>((resolve) => void world.clock.after(ms, resolve));

it('a listener of a release, in the flow of the work, waits for a lock of its own', async () => {
  let inside = 0;
  let most = 0;
  const work = async (): Promise<void> => {
    most = Math.max(most, ++inside);
    await pass(10);
    inside -= 1;
  };
  const first = follow(
    locks.withLock('k', async () => {
      at('released', () => void locks.withLock('k', work));
      await work();
    }),
  );
  const second = follow(locks.withLock('k', work));
  await world.clock.advance(100);
  expect([first.state, second.state, most]).toEqual(['resolved', 'resolved', 1]);
});

it('a lock of several keys that a listener releases again gives back its share once', async () => {
  const outer = await world.take(locks, 'a');
  const rival = follow(other.acquire('a'));
  let nested: Lock | undefined;
  const work = outer.run(async () => {
    nested = await locks.acquire(['b', 'a']);
    at(
      'released',
      () => void nested?.release(),
      ({ key }) => key === 'b',
    );
    await nested.release();
  });
  await world.clock.advance(10);
  await work;
  outer.assertHeld();
  expect(rival.state).toBe('pending');
  await outer.release();
  await world.clock.advance(10);
  await rival.value.release();
});

it('a lock that a listener releases at its release is released once', async () => {
  const events = eventsOf(locks);
  const lock = await world.take(locks, 'k');
  locks.events$.subscribe(({ type }) => type === 'released' && void lock.release());
  expect(await lock.release()).toBe('released');
  expect(events.filter(({ type }) => type === 'released')).toHaveLength(1);
});

it.each(['k', ['k', 'l']])(
  'a call for %j whose signal a listener aborts as it asks has left',
  async (key) => {
    const controller = new AbortController();
    at('asked', () => controller.abort());
    const call = follow(locks.withLock(key, { signal: controller.signal }, () => 'ran'));
    await world.clock.advance(10);
    expect((call.error as Error).name).toBe('AbortError');
    expect(await world.eye.inspect('k')).toBeNull();
  },
);

it('a call during which a listener closes the service is refused, and the service closes', async () => {
  await world.take(other, 'k');
  let closed: Promise<void> | undefined;
  at('asked', () => void (closed = locks.close()));
  const call = follow(locks.acquire('k', { waitMs: Infinity }));
  await world.clock.advance(1000);
  expect(call.error).toBeInstanceOf(LockShutdownError);
  expect(follow(closed!).state).toBe('pending');
  await closed;
});

it('a call during which a listener releases the lock waits in a queue that close() knows', async () => {
  const held = await world.take(locks, 'k');
  const before = follow(other.acquire('k', { waitMs: 600_000 }));
  await world.clock.settle();
  at('asked', () => void held.release());
  const call = follow(locks.acquire('k', { waitMs: 600_000 }));
  await world.clock.advance(10);
  expect(before.state).toBe('resolved');
  const closed = follow(locks.close());
  await world.clock.advance(10);
  expect(call.error).toBeInstanceOf(LockShutdownError);
  expect(closed.state).toBe('resolved');
});

it('a suspended lock that a listener releases is not handed on by its process, and not renewed any more', async () => {
  const [held, next] = [await world.take(locks, 'k'), follow(locks.acquire('k', { waitMs: 60_000 }))];
  await world.clock.settle();
  world.lose(({ kind }) => kind === 'renew');
  at('suspended', () => void held.release());
  const events = eventsOf(locks);
  await world.clock.advance(20_000);
  world.mendNetwork();
  await world.clock.advance(1000);
  expect(events.find(({ type }) => type === 'acquired')).toMatchObject({ by: 'store' });
  await next.value.release();
  const renewals = world.sent('renew');
  await world.clock.advance(60_000);
  expect(world.sent('renew')).toBe(renewals);
});

it('of callers that are refused together, one that a listener sends away is told of that alone', async () => {
  await world.take(other, 'k');
  world.faults.command = () => ({ repliedAfterMs: 5 });
  const controller = new AbortController();
  const events = eventsOf(locks);
  at('abandoned', () => controller.abort());
  const first = follow(locks.acquire('k', { waitMs: 0 }));
  const second = follow(locks.acquire('k', { waitMs: 0, signal: controller.signal }));
  await world.clock.advance(50);
  expect([first.error, second.error].map((error) => (error as Error).name)).toEqual([
    'LockWaitTimeoutError',
    'AbortError',
  ]);
  expect(events.filter(({ type }) => type === 'abandoned')).toHaveLength(2);
});

it('a log that throws harms neither a lock nor the process, and an event after the end of its service begins nothing', async () => {
  const hub = ServiceInternals.of(locks).events;
  const written: TypeOf[] = [];
  hub.log = {
    wants: () => true,
    write: ({ type }) => {
      written.push(type);
      throw new Error('no text');
    },
    stop: () => undefined,
  };
  const events = eventsOf(locks);
  await (await world.take(locks, 'k')).release();
  expect(events.filter(({ type }) => type === 'error')).not.toEqual([]);
  const closed = follow(locks.close());
  await world.clock.advance(1000);
  expect(closed.state).toBe('resolved');
  const before = written.length;
  hub.emit({ type: 'error', key: 'k', during: 'release', error: new Error('late') });
  expect(written).toHaveLength(before);
});
