import { describe, expect, it } from '@jest/globals';
import { eventsOf } from '../../../../../test/support/events.js';
import { follow } from '../../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../../test/support/world-per-test.js';
import {
  LockConfigurationError,
  LockDeadlockError,
  LockKeyError,
  LockStoreError,
  LockWaitTimeoutError,
} from '../../port/lock.errors.js';
import { exclusive, type KeyClaim, type Keys, permits, shared } from './key-claim.js';
import type { CallOptions } from '../lock.js';

/** Whether a call gets these keys now, beside what is held. */
async function isFree(keys: Keys, options: CallOptions = {}): Promise<boolean> {
  const asked = follow(other.tryAcquire(keys, options));
  await world.clock.settle();
  const lock = asked.value;
  await lock?.release();
  return lock !== null;
}

function modesOf(): Readonly<Record<string, string>> {
  return Object.fromEntries(locks.held().map(({ key, mode }) => [key, mode]));
}

describe('a claim of a key', () => {
  const claims: Readonly<Record<string, Keys>> = {
    plain: 'k',
    exclusive: exclusive('k'),
    shared: shared('k'),
    'one of two permits': permits('k', 2),
    'two of two permits': permits('k', 2, 2),
  };
  const together = ['shared, shared', 'one of two permits, one of two permits'];
  const otherKind = (name: string) => name.includes('permits');

  it.each(
    Object.keys(claims).flatMap((held) => Object.keys(claims).map((wanted) => [held, wanted] as const)),
  )('held as %s, and asked for as %s, excludes as these modes do', async (held, wanted) => {
    const lock = await world.take(locks, claims[held] as Keys);
    const asked = follow(other.tryAcquire(claims[wanted] as Keys));
    await world.clock.settle();
    const isOtherKind = otherKind(held) !== otherKind(wanted);
    expect(asked.error instanceof LockStoreError).toBe(isOtherKind);
    const isGranted = asked.state === 'resolved' && asked.value !== null;
    expect(isGranted).toBe(together.includes(`${held}, ${wanted}`));
    await asked.promise.then((it) => it?.release()).catch(() => undefined);
    await lock.release();
  });

  it('is frozen, so one may serve many calls', async () => {
    const folder = shared('folder:1');
    expect(
      Object.isFrozen(folder) && Object.isFrozen(permits('k', 1)) && Object.isFrozen(exclusive('k')),
    ).toBe(true);
    const [one, two] = [await world.take(locks, folder), await world.take(other, folder)];
    expect([one.key, two.mode]).toEqual(['folder:1', 'shared']);
    await Promise.all([one.release(), two.release()]);
  });

  it('goes ahead of mode, permits and weight of the options, which the other keys take', async () => {
    const lock = await world.take(locks, ['b', shared('a'), permits('c', 3, 2)], { permits: 5, weight: 4 });
    expect(modesOf()).toEqual({ a: 'shared', b: 'permits', c: 'permits' });
    expect([lock.keys, lock.mode]).toEqual([['b', 'a', 'c'], 'permits']);
    expect(await isFree(permits('b', 5))).toBe(true);
    expect(await isFree(permits('b', 5, 2))).toBe(false);
    expect(await isFree(permits('c', 3, 2))).toBe(false);
    await lock.release();
    const reader = await world.take(locks, [exclusive('a'), 'b'], { mode: 'shared' });
    expect(modesOf()).toEqual({ a: 'exclusive', b: 'shared' });
    await reader.release();
  });

  it('goes ahead of the default of the registration', async () => {
    const counting = world.service({ defaults: { permits: 2, weight: 2, leaseMs: 1000 } });
    const lock = await world.take(counting, [shared('a'), 'b']);
    expect(counting.held().map(({ mode, leaseMs }) => [mode, leaseMs])).toEqual([
      ['shared', 1000],
      ['permits', 1000],
    ]);
    await lock.release();
  });

  it('may stand alone, with every other option of the call', async () => {
    const fixed = await world.take(locks, shared('a'), { leaseMs: 50, site: 'a report' });
    expect(locks.held()).toMatchObject([{ key: 'a', mode: 'shared', leaseMs: 50, site: 'a report' }]);
    await world.clock.advance(60);
    expect(fixed.signal.aborted).toBe(true);
    const value = follow(locks.withLock(permits('b', 1), { waitMs: 0 }, (lock) => lock.mode));
    await world.clock.settle();
    expect(value.value).toBe('permits');
  });
});

describe('a folder and its files', () => {
  const writeFile = (id: number) => [shared('folder:1'), `file:${id}`];

  it('let two writers of different files work together, and one of them write each file', async () => {
    const first = await world.take(locks, writeFile(1));
    const second = await world.take(other, writeFile(2));
    expect(await isFree(writeFile(1))).toBe(false);
    expect(await isFree(writeFile(3))).toBe(true);
    await Promise.all([first.release(), second.release()]);
  });

  it('exclude a writer of the folder until all writers of its files have ended', async () => {
    const first = await world.take(locks, writeFile(1));
    const second = await world.take(other, writeFile(2));
    const folder = follow(other.acquire(exclusive('folder:1')));
    await first.release();
    await world.clock.advance(10);
    expect(folder.state).toBe('pending');
    await second.release();
    await world.clock.advance(10);
    const later = follow(locks.acquire(writeFile(3)));
    await world.clock.advance(10);
    expect([folder.state, later.state]).toEqual(['resolved', 'pending']);
    await folder.value.release();
    await world.clock.advance(10);
    await later.value.release();
  });
});

describe('several limits in one call', () => {
  const export_ = (customer: number) => [permits(`customer:${customer}`, 1), permits('total', 2)];

  it('are all kept', async () => {
    const first = await world.take(locks, export_(7));
    expect(await isFree(export_(7))).toBe(false);
    const second = await world.take(other, export_(8));
    expect(await isFree(export_(9))).toBe(false);
    await first.release();
    expect(await isFree(export_(9))).toBe(true);
    await second.release();
  });

  it('that refuse a call keep nothing of it', async () => {
    const held = await world.take(locks, permits('total', 2, 2));
    expect(await isFree(export_(7))).toBe(false);
    expect(await world.eye.inspect('customer:7')).toBeNull();
    await held.release();
  });
});

describe('keys with different claims in one call', () => {
  it('are acquired in sorted order, under one deadline', async () => {
    const events = eventsOf(locks);
    const [a, c] = [await world.take(other, exclusive('a')), await world.take(other, permits('c', 1))];
    const asked = follow(locks.acquire([permits('c', 1), 'b', shared('a')], { waitMs: 1000 }));
    await world.clock.advance(800);
    await a.release();
    await world.clock.advance(100);
    expect(asked.state).toBe('pending');
    await world.clock.advance(200);
    expect(asked.error).toBeInstanceOf(LockWaitTimeoutError);
    expect(asked.error).toMatchObject({ key: 'c' });
    expect(events.filter(({ type }) => type === 'asked').map(({ key }) => key)).toEqual(['a', 'b', 'c']);
    expect(modesOf()).toEqual({});
    await c.release();
  });

  it('cannot be downgraded if one of them counts permits, and none of them is', async () => {
    const lock = await world.take(locks, [exclusive('a'), permits('b', 2)]);
    await expect(lock.downgrade()).rejects.toThrow('"b" is held by permits');
    expect(modesOf()).toEqual({ a: 'exclusive', b: 'permits' });
    await lock.release();
  });

  it('are all shared after a downgrade', async () => {
    const lock = await world.take(locks, ['a', shared('b'), exclusive('c')]);
    const downgraded = follow(lock.downgrade());
    await world.clock.settle();
    expect(downgraded.state).toBe('resolved');
    expect(modesOf()).toEqual({ a: 'shared', b: 'shared', c: 'shared' });
    await lock.release();
  });
});

describe('nested calls', () => {
  it('share each key whose claim covers theirs', async () => {
    const outer = await world.take(locks, [shared('a'), exclusive('b'), permits('c', 3, 2)]);
    const inner = follow(outer.run(() => locks.acquire([permits('c', 3), shared('b'), shared('a')])));
    await world.clock.settle();
    expect([inner.value.depth, outer.calls]).toEqual([1, 2]);
    expect(world.sent('acquire')).toBe(3);
    await inner.value.release();
    await outer.release();
  });

  it.each<[string, KeyClaim]>([
    ['"a" is held by this flow as shared: asking for exclusive would wait for itself', exclusive('a')],
    ['"c" is held by this flow as 1 of 3 permits: asking for 2 of 3 permits', permits('c', 3, 2)],
    ['"b" is held by this flow as exclusive: asking for 1 of 3 permits', permits('b', 3)],
  ])('are refused where it does not: %s', async (message, wanted) => {
    const outer = await world.take(locks, [shared('a'), 'b', permits('c', 3)]);
    const inner = follow(outer.run(() => locks.acquire([wanted, 'd'])));
    await world.clock.settle();
    expect(inner.error).toBeInstanceOf(LockDeadlockError);
    expect((inner.error as Error).message).toContain(message);
    expect(await world.eye.inspect('d')).toBeNull();
    await outer.release();
  });

  it('that would close a circle are refused, and readers close none', async () => {
    const [one, two] = [
      await world.take(locks, [shared('r'), 'a']),
      await world.take(locks, [shared('r'), 'b']),
    ];
    const waits = follow(one.run(() => locks.acquire([shared('r'), 'b'])));
    await world.clock.advance(10);
    const reads = follow(two.run(() => locks.acquire(shared('r'))));
    const closes = follow(two.run(() => locks.acquire([shared('r'), 'a'])));
    await world.clock.settle();
    await reads.value.release();
    expect(closes.error).toMatchObject({ code: 'LOCK_DEADLOCK', path: ['a', 'b'] });
    await two.release();
    await world.clock.advance(10);
    await waits.value.release();
    await one.release();
  });
});

describe('what is wrong with a claim is said', () => {
  const refused = async (keys: unknown, options: CallOptions = {}): Promise<Error> => {
    const asked = follow(locks.acquire(keys as Keys, options));
    await world.clock.settle();
    expect(world.sent('acquire')).toBe(0);
    return asked.error as Error;
  };

  it.each<[string, () => unknown]>([
    ['permits: count must be a whole number from 1 to 1000000; it is 0.', () => permits('k', 0)],
    ['permits: count must be a whole number from 1 to 1000000; it is 1.5.', () => permits('k', 1.5)],
    ['permits: weight must be a whole number from 1 to 1000; it is 0.', () => permits('k', 3, 0)],
    ['weight (4) must not be more than permits (3).', () => permits('k', 3, 4)],
    [
      "permits needs a key and the number of its permits: permits('bank', 3).",
      () => Reflect.apply(permits, undefined, ['k']),
    ],
  ])('%s', (message, make) => {
    expect(make).toThrow(new LockConfigurationError(message));
  });

  it.each<[string, Keys, CallOptions]>([
    ['"a" was given twice, as shared and as exclusive', [shared('a'), 'b', exclusive('a')], {}],
    ['"a" was given twice, without a mode and as shared', ['a', shared('a')], {}],
    ['"a" was given twice, as exclusive and as shared', ['a', shared('a')], { mode: 'exclusive' }],
    ['as 1 of 2 permits and as 1 of 3 permits', [permits('a', 2), permits('a', 3)], {}],
    ['as 1 of 3 permits and as 2 of 3 permits', [permits('a', 3), permits('a', 3, 2)], {}],
  ])('a key with two claims: %s', async (message, keys, options) => {
    const error = await refused(keys, options);
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain(message);
  });

  it('and a key that is given twice with one claim is one key', async () => {
    for (const keys of [
      [shared('a'), shared('a')],
      [permits('a', 3), permits('a', 3, 1)],
    ]) {
      const lock = await world.take(locks, keys);
      expect(lock.keys).toEqual(['a']);
      expect(lock.fencingToken).toBe(lock.tokenOf('a'));
      await lock.release();
    }
    const lock = await world.take(locks, ['a', shared('a'), 'b'], { mode: 'shared' });
    expect(lock.keys).toEqual(['a', 'b']);
    await lock.release();
  });

  it.each<[string, Keys]>([
    [`it is not for mode: 'shared'`, ['a', shared('b')]],
    ['it is not for permits (3)', permits('a', 3)],
  ])('a takeover: %s', async (message, keys) => {
    const error = await refused(keys, { onBusy: 'takeover', waitMs: 5000 });
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain(message);
  });

  it('and a takeover of a key that is exclusive goes on', async () => {
    const held = await world.take(other, exclusive('a'));
    const taken = follow(locks.acquire([exclusive('a'), 'b'], { onBusy: 'takeover', waitMs: 5000 }));
    await world.clock.advance(1100);
    expect(held.signal.aborted).toBe(true);
    await taken.value.release();
  });

  it.each<[string, unknown]>([
    ['it is an empty string', shared('')],
    ['it is an empty string', ['a', permits('', 2)]],
    ['it is undefined', Reflect.apply(shared, undefined, [])],
    // A client may send this in place of a key, and must not choose how it is held.
    ['it is an object', { key: 'a', mode: 'shared' }],
    ['it is an object', ['a', { key: 'b', permits: 1_000_000 }]],
    ['it is a list', [[shared('a')]]],
    ['101 keys were given', Array.from({ length: 101 }, (_, i) => shared(`k${i}`))],
  ])('a key: %s', async (message, keys) => {
    const error = await refused(keys);
    expect(error).toBeInstanceOf(LockKeyError);
    expect(error.message).toContain(message);
  });
});
