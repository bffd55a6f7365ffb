import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { follow, LockWorld } from '../../../../../test/support/lock-world.js';
import { placeholderOf } from '../../port/lock-store.js';
import {
  LockConfigurationError,
  LockKeyError,
  LockLostError,
  LockNotHeldError,
  LockShutdownError,
  LockStoreError,
} from '../../port/lock.errors.js';
import { shared } from '../request/key-claim.js';
import type { LockEvent } from '../events/lock.events.js';
import type { Lock } from '../lock.js';
import type { LockService } from '../lock.service.js';

const LEASE = { leaseMs: 5000 };

describe('a lock that is passed to another process', () => {
  let world: LockWorld;
  let shop: LockService;
  let worker: LockService;

  beforeEach(() => {
    world = new LockWorld();
    [shop, worker] = [world.service(), world.service()];
  });

  afterEach(() => world.close());

  const settled = async <T>(promise: Promise<T>) => {
    const followed = follow(promise);
    await world.clock.settle();
    return followed;
  };
  const detached = async (lock: Lock, leaseMs = LEASE.leaseMs) =>
    (await settled(lock.detach({ leaseMs }))).value;
  const attached = async (baton: string) => (await settled(worker.attach(baton))).value;
  const isFree = async (key = 'k') => {
    const lock = (await settled(worker.tryAcquire(key))).value;
    await lock?.release();
    return lock !== null;
  };

  it('is held by the other one under the same token, also when the token is one of a local hand-off', async () => {
    const first = await world.take(shop, 'k');
    const second = settled(shop.acquire('k'));
    const third = settled(shop.acquire('k', { waitMs: 120_000 }));
    await first.release();
    const lock = (await second).value;
    const baton = await detached(lock);
    const passed = await attached(baton);
    expect(passed.fencingToken).toBe(lock.fencingToken);
    expect(passed.owner).not.toBe(lock.owner);
    await world.clock.advance(60_000);
    expect(passed.validForMs).toBeGreaterThan(0);
    await passed.release();
    await world.clock.settle();
    expect((await third).value.fencingToken).toBeGreaterThan(lock.fencingToken);
  });

  it('is nobody else’s in between, and callers of the first process go on waiting in the store', async () => {
    const lock = await world.take(shop, 'k');
    const local = follow(shop.acquire('k', { waitMs: 60_000 }));
    const remote = follow(worker.acquire('k', { waitMs: 60_000 }));
    await world.clock.settle();
    const baton = await detached(lock);
    await world.clock.advance(3000);
    expect([local.state, remote.state]).toEqual(['pending', 'pending']);
    const passed = await attached(baton);
    await world.clock.advance(40_000);
    expect([local.state, remote.state]).toEqual(['pending', 'pending']);
    await passed.release();
    await world.clock.settle();
    expect([local.state, remote.state].toSorted()).toEqual(['pending', 'resolved']);
  });

  it('is free when its lease has run out, and cannot be attached any more', async () => {
    const baton = await detached(await world.take(shop, 'k'), 1000);
    await world.clock.advance(900);
    expect(await isFree()).toBe(false);
    await world.clock.advance(200);
    expect(await isFree()).toBe(true);
    const late = await settled(worker.attach(baton));
    expect(late.error).toBeInstanceOf(LockNotHeldError);
    expect(String(late.error)).toContain(
      '"k" was not attached: its detached lock is not in this store any more',
    );
  });

  it('is attached once', async () => {
    const baton = await detached(await world.take(shop, 'k'));
    const [one, other] = [follow(worker.attach(baton)), follow(shop.attach(baton))];
    await world.clock.settle();
    expect([one.state, other.state].toSorted()).toEqual(['rejected', 'resolved']);
    const passed = one.state === 'resolved' ? one.value : other.value;
    await passed.release();
    expect((await settled(worker.attach(baton))).error).toBeInstanceOf(LockNotHeldError);
    expect(await isFree()).toBe(true);
  });

  it('is the next one’s if it is released by force, and cannot be attached any more', async () => {
    const baton = await detached(await world.take(shop, 'k'));
    const next = follow(shop.acquire('k'));
    await world.clock.settle();
    expect((await settled(worker.forceRelease('k'))).value).toBe('released');
    expect((await settled(worker.attach(baton))).error).toBeInstanceOf(LockNotHeldError);
    expect(next.value.validForMs).toBeGreaterThan(0);
  });

  it.each([
    ['shared', { mode: 'shared' as const }],
    ['exclusive', { mode: 'exclusive' as const }],
    ['permits', { permits: 5, weight: 2 }],
  ])('keeps its claim: %s', async (mode, options) => {
    const lock = await world.take(shop, 'k', options);
    const passed = await attached(await detached(lock));
    expect(passed.mode).toBe(mode);
    expect((await world.eye.inspect('k'))?.mode).toBe(mode);
    expect((await world.eye.inspect('k'))?.holders).toEqual([passed.owner]);
  });

  it('survives the end of the work and of the process that detached it', async () => {
    const baton = (await settled(shop.withLock('k', (lock) => lock.detach(LEASE)))).value;
    await settled(shop.close());
    expect(await isFree()).toBe(false);
    expect((await attached(baton)).validForMs).toBeGreaterThan(0);
  });

  it('is over for its first holder, in words', async () => {
    const lock = await world.take(shop, 'k');
    await detached(lock);
    expect(() => lock.assertHeld()).toThrow(LockNotHeldError);
    expect(() => lock.assertHeld()).toThrow('this lock was detached. Use the one that locks.attach(baton)');
    await expect(lock.detach(LEASE)).rejects.toThrow('this lock was detached');
    await expect(lock.keepFor(1000)).rejects.toThrow('this lock was detached');
    expect(await lock.release()).toBe('released');
    expect([lock.validForMs, lock.contended]).toEqual([0, false]);
    expect(await isFree()).toBe(false);
  });

  it('shows in the store as a holder that nobody can notify', async () => {
    const lock = await world.take(shop, 'k');
    await detached(lock);
    const owner = placeholderOf(lock.owner);
    expect((await worker.inspect('k'))?.holders).toEqual([owner]);
    expect(await world.eye.announceTakeover({ key: 'k', owner, graceMs: 10, by: 'x' })).toBe(
      'nobody to tell',
    );
    const taken = follow(worker.acquire('k', { onBusy: 'takeover', graceMs: 100 }));
    await world.clock.advance(2000);
    expect(taken.value.fencingToken).toBeGreaterThan(lock.fencingToken);
  });

  it('is one acquisition and one release in the events of each process', async () => {
    const seen: string[] = [];
    const note = (who: string) => (event: LockEvent) => {
      if (event.key === 'k') seen.push(`${who} ${event.type}`);
    };
    shop.events$.subscribe(note('shop'));
    worker.events$.subscribe(note('worker'));
    await (await attached(await detached(await world.take(shop, 'k')))).release();
    expect(seen).toEqual([
      'shop asked',
      'shop acquired',
      'shop released',
      'worker asked',
      'worker acquired',
      'worker released',
    ]);
    await world.clock.settle();
  });

  it('is renewed once it is attached, can be detached again, and is shared by nested calls in run', async () => {
    const passed = await attached(await detached(await world.take(shop, 'k')));
    const depth = await settled(passed.run(() => worker.withLock('k', (nested) => nested.depth)));
    expect(depth.value).toBe(1);
    const again = (await settled(shop.attach(await detached(passed)))).value;
    expect(again.fencingToken).toBe(passed.fencingToken);
    await world.clock.advance(100_000);
    expect(again.validForMs).toBeGreaterThan(0);
  });

  describe('over a bad network', () => {
    it('is detached if the reply to the release is lost, and the baton is good', async () => {
      const lock = await world.take(shop, 'k');
      let lost = 0;
      world.faults.command = ({ kind }) =>
        kind === 'release' && lost++ === 0 ? { repliedAfterMs: 'never' } : undefined;
      const baton = follow(lock.detach(LEASE));
      await world.clock.advance(1000);
      expect(lost).toBeGreaterThan(1);
      expect((await attached(baton.value)).fencingToken).toBe(lock.fencingToken);
    });

    it('is lost in words if the store has given it to somebody else', async () => {
      const lock = await world.take(shop, 'k');
      world.faults.notification = () => [];
      await world.eye.forceRelease('k');
      const failed = await settled(lock.detach(LEASE));
      expect(failed.error).toBeInstanceOf(LockLostError);
      expect(String(failed.error)).toContain('not held any more when it was detached');
    });

    it('is attached once if the reply to that is lost, by the same owner', async () => {
      const baton = await detached(await world.take(shop, 'k'));
      let lost = 0;
      world.faults.command = ({ kind }) =>
        kind === 'acquire' && lost++ === 0 ? { repliedAfterMs: 'never' } : undefined;
      const passed = follow(worker.attach(baton));
      await world.clock.advance(1000);
      expect(lost).toBe(2);
      expect((await world.eye.inspect('k'))?.holders).toEqual([passed.value.owner]);
    });

    it('is given up, and released if it was attached, when no answer comes within waitMs', async () => {
      const baton = await detached(await world.take(shop, 'k'));
      world.faults.command = ({ kind }) => (kind === 'acquire' ? { repliedAfterMs: 'never' } : undefined);
      const failed = follow(worker.attach(baton, { waitMs: 500 }));
      await world.clock.advance(2000);
      expect(failed.error).toBeInstanceOf(LockStoreError);
      world.mendNetwork();
      await world.clock.advance(1000);
      expect(await isFree()).toBe(true);
    });

    it('is left in the store when the caller has left before the request was sent', async () => {
      const baton = await detached(await world.take(shop, 'k'));
      await expect(worker.attach(baton, { signal: AbortSignal.abort(new Error('left')) })).rejects.toThrow(
        'left',
      );
      expect((await attached(baton)).validForMs).toBeGreaterThan(0);
    });
  });

  describe('is refused in words', () => {
    const refusal = async (lock: Lock) => {
      const refused = await settled(lock.detach(LEASE));
      expect(refused.error).toBeInstanceOf(LockConfigurationError);
      expect(() => lock.assertHeld()).not.toThrow();
      return String(refused.error);
    };

    it('without a lease, and with one of the wrong form', async () => {
      const lock = await world.take(shop, 'k');
      const options = {} as { leaseMs: number };
      await expect(lock.detach(options)).rejects.toThrow('detach: leaseMs must be a whole number of ms');
      await expect(lock.detach({ leaseMs: 1 })).rejects.toThrow(
        'detach: leaseMs must be a whole number of ms',
      );
      expect(() => lock.assertHeld()).not.toThrow();
    });

    it('with several keys', async () => {
      const lock = await world.take(shop, ['a', 'b']);
      expect(await refusal(lock)).toContain('"a" cannot be detached: this lock has 2 keys');
    });

    it('by a nested call, and while one has not ended', async () => {
      const outer = await world.take(shop, 'k');
      const nested = (await settled(outer.run(() => shop.acquire('k')))).value;
      expect(await refusal(nested)).toContain('it is held by a call around this one');
      expect(await refusal(outer)).toContain('1 nested calls share it and have not ended');
      await nested.release();
      await detached(outer);
    });

    it('while other readers of the process share its lease; a fair one has a lease of its own', async () => {
      const [one, other] = [await world.take(shop, shared('k')), await world.take(shop, shared('k'))];
      expect(await refusal(one)).toContain('1 other readers of this process share its lease');
      await expect(one.keepFor(1000)).rejects.toThrow('"k" cannot end its renewals: 1 other readers');
      const fair = await world.take(shop, 'k', { mode: 'shared', fair: true });
      const passed = await attached(await detached(fair));
      expect([one.validForMs > 0, other.validForMs > 0, passed.mode]).toEqual([true, true, 'shared']);
    });

    it('within a minimum hold', async () => {
      const lock = await world.take(shop, 'k', { holdAtLeastMs: 1000 });
      expect(await refusal(lock)).toContain('its minimum hold still runs');
      await world.clock.advance(1100);
      await detached(lock);
    });

    it('when the application that attaches is closing', async () => {
      const baton = await detached(await world.take(shop, 'k'));
      await settled(worker.close());
      await expect(worker.attach(baton)).rejects.toBeInstanceOf(LockShutdownError);
    });

    it('with an option that attach does not have', async () => {
      const baton = await detached(await world.take(shop, 'k'));
      const attach = worker.attach.bind(worker) as (text: string, options: object) => Promise<Lock>;
      await expect(attach(baton, { leaseMs: 5 })).rejects.toThrow('attach has no option "leaseMs"');
    });

    it('when the baton is of another keyPrefix', async () => {
      const other = world.service({ keyPrefix: 'other:' });
      const baton = await detached(await world.take(other, 'k'));
      const refused = worker.attach(baton);
      await expect(refused).rejects.toBeInstanceOf(LockConfigurationError);
      await expect(worker.attach(baton)).rejects.toThrow('keyPrefix "other:", and this one has ""');
    });

    it('when the baton was cut', async () => {
      const baton = await detached(await world.take(shop, 'k'));
      await expect(worker.attach(baton.slice(0, -3))).rejects.toBeInstanceOf(LockKeyError);
    });
  });

  it('names the line that attached it, or the site of the call', async () => {
    const passed = await attached(await detached(await world.take(shop, 'k')));
    expect(worker.held()[0]?.site).toMatch(/^attach\(\) .*detached\.spec\.ts:\d+$/);
    const again = (await settled(worker.attach(await detached(passed), { site: 'nightly' }))).value;
    expect(worker.held()[0]?.site).toBe('nightly');
    await again.release();
  });

  it('does not take the options that the service has for calls that ask for a key', async () => {
    const other = world.service({ defaults: { leaseMs: 500, holdAtLeastMs: 400, mode: 'shared' } });
    const baton = await detached(await world.take(shop, 'k'));
    const passed = (await settled(other.attach(baton))).value;
    await world.clock.advance(5000);
    expect([passed.mode, passed.validForMs > 1000]).toEqual(['exclusive', true]);
    await passed.release();
    await world.clock.settle();
    expect(await isFree()).toBe(true);
  });
});

describe('a lock that is kept for a time', () => {
  let world: LockWorld;
  let service: LockService;

  beforeEach(() => {
    world = new LockWorld();
    service = world.service();
  });

  afterEach(() => world.close());

  const kept = async (lock: Lock, ms: number) => {
    const done = follow(lock.keepFor(ms));
    await world.clock.settle();
    return done.value;
  };

  it.each([1000, 90_000])('ends after %d ms, whatever the watchdog was about to do', async (ms) => {
    const lock = await world.take(service, 'k');
    await world.clock.advance(12_345);
    await kept(lock, ms);
    expect(lock.validForMs).toBeLessThanOrEqual(ms);
    await world.clock.advance(0.7 * ms);
    expect([lock.signal.aborted, (await world.eye.inspect('k'))?.holders]).toEqual([false, [lock.owner]]);
    await world.clock.advance(0.3 * ms + 10);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
    expect(await world.eye.inspect('k')).toBeNull();
  });

  it('can be released before, and is not handed on inside the process', async () => {
    const lock = await world.take(service, 'k');
    const next = follow(service.acquire('k'));
    await kept(lock, 20_000);
    expect(await lock.release()).toBe('released');
    await world.clock.settle();
    expect(next.value.owner).not.toBe(lock.owner);
    await world.clock.advance(60_000);
    expect(next.value.validForMs).toBeGreaterThan(0);
  });

  it('can be kept for longer, by extend or again', async () => {
    const lock = await world.take(service, 'k');
    await expect(lock.extend(5000)).rejects.toThrow('for others after keepFor(ms)');
    await kept(lock, 1000);
    await world.clock.advance(500);
    const extended = follow(lock.extend(3000));
    await world.clock.advance(2000);
    expect([extended.state, lock.validForMs > 0]).toEqual(['resolved', true]);
    await kept(lock, 5000);
    await world.clock.advance(4000);
    expect(lock.validForMs).toBeGreaterThan(0);
  });

  it('is a fixed lease that is set anew, if it had one', async () => {
    const lock = await world.take(service, 'k', { leaseMs: 1000 });
    await kept(lock, 4000);
    await world.clock.advance(3000);
    expect(lock.validForMs).toBeGreaterThan(0);
    await world.clock.advance(1000);
    expect(lock.validForMs).toBe(0);
  });

  it('is believed for no longer than the store may keep it, if the store does not answer', async () => {
    const lock = await world.take(service, 'k');
    world.lose(({ kind }) => kind === 'renew');
    const failed = follow(lock.keepFor(2000));
    await world.clock.advance(1000);
    expect(failed.error).toBeInstanceOf(LockStoreError);
    expect(lock.signal.aborted).toBe(false);
    await world.clock.advance(1000);
    expect(lock.signal.reason).toBeInstanceOf(LockLostError);
  });

  it('needs a time', async () => {
    const lock = await world.take(service, 'k');
    await expect(lock.keepFor(0)).rejects.toThrow('keepFor: ms must be a whole number of ms');
    await expect(lock.keepFor(undefined as unknown as number)).rejects.toThrow(
      'keepFor: ms must be a whole number of ms',
    );
    await expect(lock.extend(undefined as unknown as number)).rejects.toThrow('extend: ms must be');
    expect(() => lock.assertHeld()).not.toThrow();
  });
});
