import { describe, expect, it } from '@jest/globals';
import { eventsOf, typesOf } from '../../../../../test/support/events.js';
import { follow } from '../../../../../test/support/lock-world.js';
import { locks, other, world } from '../../../../../test/support/world-per-test.js';
import { LockLostError, LockShutdownError } from '../../port/lock.errors.js';

describe('a grant', () => {
  it('whose notification comes twice is one grant', async () => {
    const lock = await world.take(other, 'k');
    const waiter = follow(locks.acquire('k'));
    await world.clock.settle();
    world.faults.notification = () => [0, 40, 80];
    const events = eventsOf(locks);
    await lock.release();
    await world.clock.advance(100);
    waiter.value.assertHeld();
    expect(await waiter.value.release()).toBe('released');
    await world.clock.advance(100);
    expect(typesOf(events)).toEqual(['acquired', 'released']);
  });

  it.each([35, 50])(
    'whose answers come %i ms late, too late for its lease of 40 ms, is given up, however long its callers would wait',
    async (repliedAfterMs) => {
      world.faults.command = ({ kind }) =>
        kind === 'acquire' || kind === 'renew' ? { repliedAfterMs } : undefined;
      const hasty = follow(locks.acquire('k', { leaseMs: 40, waitMs: Infinity }));
      await world.clock.advance(1000);
      expect(hasty.error).toMatchObject({
        code: 'LOCK_STORE',
        message: expect.stringContaining('longer than the lease of 40 ms (3 in a row)'),
      });
      world.mendNetwork();
      await (await world.take(other, 'k')).release();
    },
  );

  it('that was lost before a caller was let in sends the owner back to the queue', async () => {
    const lock = await world.take(other, 'k');
    const waiter = follow(locks.acquire('k', { waitMs: Infinity }));
    await world.clock.settle();
    world.faults.notification = (notification) => (notification.kind === 'granted' ? [300] : []);
    await lock.release();
    await world.clock.advance(100);
    await world.eye.forceRelease('k');
    const third = follow(world.service().acquire('k', { waitMs: Infinity }));
    await world.clock.advance(300);
    expect(third.state).toBe('resolved');
    expect(waiter.state).toBe('pending');
    await third.value.release();
    await world.clock.advance(2000);
    await waiter.value.release();
  });

  it('that follows one which was lost is not lost by the reply to a renewal of the one before', async () => {
    const lock = await world.take(other, 'k');
    const waiter = follow(locks.acquire('k', { waitMs: Infinity }));
    await world.clock.settle();
    world.faults.notification = ({ kind }) => (kind === 'granted' ? [300] : undefined);
    world.faults.command = ({ kind }) => (kind === 'renew' ? { executedAfterMs: [50] } : undefined);
    await lock.release();
    await world.clock.advance(310);
    expect(waiter.state).toBe('pending');
    await world.eye.forceRelease('k');
    await world.clock.advance(5);
    expect(waiter.value.signal.aborted).toBe(false);
    await world.clock.advance(100);
    expect(await waiter.value.release()).toBe('released');
  });

  it('under another token than the one that is held means that the lock was lost', async () => {
    const events = eventsOf(locks);
    const lock = await locks.acquire('k');
    world.faults.notification = () => [];
    await world.eye.forceRelease('k');
    const ask = world.commands.find((command) => command.kind === 'acquire');
    const client = ask?.kind === 'acquire' ? ask.request : undefined;
    // A copy of the acquire that the network kept is executed: the store believes this owner to hold again.
    await world.eye.acquire({ ...client!, mayWait: false });
    await world.clock.advance(11_000);
    expect(() => lock.assertHeld()).toThrow(LockLostError);
    expect(typesOf(events)).toEqual(['acquired', 'lost']);
    await world.clock.settle();
    expect(await world.eye.inspect('k')).toBeNull();
  });

  it('that was taken by force before its reply came lets nobody in', async () => {
    world.faults.command = ({ kind }) => (kind === 'acquire' ? { repliedAfterMs: 80 } : undefined);
    const waiter = follow(locks.acquire('k', { waitMs: Infinity }));
    await world.clock.advance(10);
    await world.eye.forceRelease('k');
    world.mendNetwork();
    const lock = await world.take(other, 'k');
    await world.clock.advance(100);
    expect(waiter.state).toBe('pending');
    await lock.release();
    await world.clock.advance(2000);
    expect(waiter.value.fencingToken).toBeGreaterThan(lock.fencingToken);
    await waiter.value.release();
  });

  it('whose takeover was announced before its reply came is given up when the grace is over', async () => {
    world.faults.command = ({ kind }) => (kind === 'acquire' ? { repliedAfterMs: 80 } : undefined);
    const waiter = follow(locks.acquire('k', { waitMs: Infinity }));
    await world.clock.advance(10);
    world.mendNetwork();
    const taker = follow(other.acquire('k', { onBusy: 'takeover', graceMs: 20, waitMs: Infinity }));
    await world.clock.advance(80);
    expect([waiter.state, taker.state]).toEqual(['pending', 'resolved']);
    await taker.value.release();
    await world.clock.advance(2000);
    await waiter.value.release();
  });

  it('whose answer was lost is given back when nobody waits for it any more', async () => {
    world.faults.command = ({ kind }) => (kind === 'acquire' ? { repliedAfterMs: 'never' } : undefined);
    const asked = follow(locks.acquire('k', { waitMs: 0 }));
    await world.clock.advance(200);
    expect(asked.error).toMatchObject({ code: 'LOCK_STORE', reason: 'unknown' });
    world.mendNetwork();
    await world.clock.advance(1000);
    expect(await world.eye.inspect('k')).toBeNull();
  });
});

describe('before the confirmation of a grant is answered', () => {
  /** Two callers of one process, the first of which has the lock by a notification. */
  async function twoCallers() {
    const before = await world.take(other, 'k');
    const process = world.service({ watchdogTimeoutMs: 160 });
    const [first, next] = [1, 2].map(() => follow(process.acquire('k', { waitMs: Infinity })));
    // The next recheck reserves tokens for both.
    await world.clock.advance(1100);
    world.faults.command = ({ kind }) => (kind === 'renew' ? { repliedAfterMs: 90 } : undefined);
    await before.release();
    await world.clock.advance(5);
    expect(first!.state).toBe('resolved');
    return { first: first!, next: next! };
  }

  it('the next caller of the process enters by a local hand-off', async () => {
    const { first, next } = await twoCallers();
    expect(await first.value.release()).toBe('released');
    expect(next.value.owner).toBe(first.value.owner);
    await world.clock.advance(90);
    next.value.assertHeld();
    expect(await next.value.release()).toBe('released');
  });

  it('nobody enters by a local hand-off when half of the lease is over', async () => {
    const { first, next } = await twoCallers();
    await world.clock.advance(75);
    expect(await first.value.release()).toBe('released');
    await world.clock.advance(5);
    expect(next.value.owner).not.toBe(first.value.owner);
    await next.value.release();
  });
});

describe('a recheck', () => {
  it('presents the ticket that the owner has, so that a store which has forgotten its queue keeps the order', async () => {
    const lock = await world.take(other, 'k');
    const waiter = follow(locks.acquire('k', { waitMs: Infinity }));
    await world.clock.advance(3000);
    const tickets = world.commands.flatMap((it) =>
      it.kind === 'acquire' && it.request.mayWait && it.request.key === 'k' ? [it.request.ticket] : [],
    );
    const [first, second, third] = tickets.slice(-3);
    expect(second).toBeGreaterThan(0);
    expect([first === second || first === 0, third]).toEqual([true, second]);
    await lock.release();
    await world.clock.advance(100);
    await waiter.value.release();
  });
});

describe('a forced release', () => {
  it('is told to the holder at once, and serves the next in the queue', async () => {
    const lock = await locks.acquire('k');
    const next = follow(other.acquire('k', { waitMs: Infinity }));
    await world.clock.settle();
    expect(await other.forceRelease('k')).toBe('released');
    await world.clock.settle();
    expect(() => lock.assertHeld()).toThrow('it was released by force');
    next.value.assertHeld();
    expect(next.value.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await lock.release()).toBe('lost');
    next.value.assertHeld();
    expect(await next.value.release()).toBe('released');
  });
});

describe('draining', () => {
  it('refuses new calls and rejects callers that wait', async () => {
    const lock = await world.take(other, 'k');
    const waiter = follow(locks.acquire('k', { waitMs: Infinity }));
    const fair = follow(locks.acquire('k', { waitMs: Infinity, fair: true }));
    await world.clock.settle();
    const drained = follow(locks.drain());
    await world.clock.settle();
    expect(waiter.error).toBeInstanceOf(LockShutdownError);
    expect(fair.error).toBeInstanceOf(LockShutdownError);
    await expect(locks.acquire('new')).rejects.toBeInstanceOf(LockShutdownError);
    await world.clock.advance(200);
    expect(drained.state).toBe('resolved');
    expect((await world.eye.inspect('k'))?.pending).toEqual([]);
    await lock.release();
  });

  it('waits for the answers to releases that are under way', async () => {
    const lock = await world.take(locks, 'k');
    world.faults.command = ({ kind }) =>
      kind === 'release' ? { executedAfterMs: [30], repliedAfterMs: 60 } : undefined;
    void lock.release();
    const drained = follow(locks.drain());
    await world.clock.advance(50);
    expect(drained.state).toBe('pending');
    await world.clock.advance(50);
    expect(drained.state).toBe('resolved');
    expect(await world.eye.inspect('k')).toBeNull();
  });

  it('lets a flow that holds a lock acquire others and wait for them, until the grace is over', async () => {
    const patient = world.service({ shutdownGraceMs: 5000 });
    const busy = await world.take(other, 'busy');
    const never = await world.take(other, 'never');
    const done: string[] = [];
    const work = follow(
      patient.withLock('k', async () => {
        await patient.withLock('busy', () => done.push('waited'));
        await patient.withLock(['a', 'b'], () => done.push('together'));
        await new Promise<void>((resolve) => world.clock.after(100, resolve));
        await patient.withLock('never', { waitMs: Infinity }, () => done.push('never'));
      }),
    );
    await world.clock.settle();
    const closed = follow(patient.close());
    await world.clock.settle();
    await expect(patient.acquire('new')).rejects.toBeInstanceOf(LockShutdownError);
    await world.clock.advance(1000);
    await busy.release();
    await world.clock.advance(500);
    expect(done).toEqual(['waited', 'together']);
    expect([work.state, closed.state]).toEqual(['pending', 'pending']);
    await world.clock.advance(4000);
    expect(work.error).toBeInstanceOf(LockShutdownError);
    expect(closed.state).toBe('resolved');
    await never.release();
  });

  it('tells after a second which locks it waits for', async () => {
    const patient = world.service({ shutdownGraceMs: 5000 });
    const events = eventsOf(patient);
    const forgotten = await world.take(patient, 'forgotten');
    const closed = follow(patient.close());
    await world.clock.advance(999);
    expect(typesOf(events)).toEqual(['acquired']);
    await world.clock.advance(1);
    expect(events.at(-1)).toMatchObject({
      type: 'warning',
      message: expect.stringMatching(
        /5000 ms at most, for locks that are still held: "forgotten" \(acquire\(\) .*for 1 s\)\./,
      ),
    });
    await forgotten.release();
    await world.clock.settle();
    expect(closed.state).toBe('resolved');
  });

  it('may be asked for twice, and before anything was locked', async () => {
    const fresh = world.service();
    await Promise.all([fresh.close(), fresh.close(), fresh.drain()]);
    await expect(fresh.acquire('k')).rejects.toBeInstanceOf(LockShutdownError);
  });
});
