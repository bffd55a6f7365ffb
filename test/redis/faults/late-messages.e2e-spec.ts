import { describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-distributed-lock';
import { ownRedis } from '../../support/own-redis.js';
import { eventsOf } from '../../support/events.js';
import { elapsed, openService, untilAborted } from '../../support/lock-services.js';
import { until } from '#until';
import { wireName } from '../../support/wire-names.js';

describe('messages that arrive late', () => {
  const redis = ownRedis('late');

  const asks = (command: string[]) => wireName(command) === 'acquire' && command[3] === redis.key;
  const sent = (which: (command: string[]) => boolean) =>
    redis.proxy.all.flatMap(({ commands }) => commands).filter(which);
  const isRenewal = (command: string[]) => wireName(command) === 'renew' && command[3] === redis.key;

  /** Connected, with the scripts known to the server. */
  const openBehindProxy = async (options: Parameters<typeof openService>[1]) => {
    const service = openService(redis.proxy.url, options);
    await service.withLock(`${redis.key}:warm`, () => undefined);
    return service;
  };

  /** An acquire whose first copy is stuck on a broken connection; it was repeated on another, and granted. */
  const acquireTwice = async (service: LockService) => {
    const stuck = redis.proxy.commands;
    stuck.requests.hold();
    const acquiring = service.acquire(redis.key);
    await until(() => stuck.commands.some(asks));
    stuck.reset();
    return { stuck, lock: await acquiring, owner: await redis.eyes.holder(redis.key) };
  };

  it('a copy of an acquire that is executed after its end holds the key for one command at most, not for a lease', async () => {
    const service = await openBehindProxy({ commandTimeoutMs: 1000 });
    const { stuck, lock, owner } = await acquireTwice(service);
    void lock.release();
    await until(async () => (await redis.eyes.remains(redis.key)).length === 0);

    stuck.deliverLate();
    await until(async () => (await redis.eyes.holder(redis.key)) !== undefined);
    expect(await redis.eyes.holder(redis.key)).toBe(owner);
    expect(await redis.eyes.client.pttl(redis.key)).toBeGreaterThan(20_000);

    const next = redis.open();
    const waited = await elapsed(next.acquire(redis.key).then((l) => l.release()));
    expect(waited).toBeLessThan(1000 + 500 + 500);
    expect(await lock.release()).toBe('released');
    expect(await redis.eyes.remains(redis.key)).toEqual([]);
  });

  it('a copy of an acquire that is executed after its command has been given up does nothing', async () => {
    const service = await openBehindProxy({ commandTimeoutMs: 300 });
    const link = redis.proxy.commands;
    link.requests.hold();
    const lock = await service.acquire(redis.key);
    expect(await lock.release()).toBe('released');
    link.deliverLate();
    await until(
      async () =>
        ((await redis.eyes.client.client('LIST', 'TYPE', 'NORMAL')) as string).split('\n').length <= 4,
    );
    expect(await redis.eyes.remains(redis.key)).toEqual([]);
    expect(sent(asks)).toHaveLength(2);
  });

  it('both copies of an acquire name the same owner', async () => {
    const service = await openBehindProxy({});
    const { lock, owner } = await acquireTwice(service);
    expect(sent(asks).map((command) => command[8])).toEqual([owner, owner]);
    await lock.release();
  });

  it('a holder whose lock was lost, held by another, and regained by a late copy of its own acquire, learns that it lost it', async () => {
    const service = await openBehindProxy({ commandTimeoutMs: 2000, watchdogTimeoutMs: 6000 });
    const { stuck, lock, owner } = await acquireTwice(service);
    await redis.eyes.client.del(redis.key);
    const other = await redis.open().acquire(redis.key);
    expect(other.fencingToken).toBeGreaterThan(lock.fencingToken);
    await other.release();
    stuck.deliverLate();
    await until(async () => (await redis.eyes.holder(redis.key)) !== undefined);
    expect(await redis.eyes.holder(redis.key)).toBe(owner);

    const waited = await elapsed(untilAborted(lock.signal));
    expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
    expect(waited).toBeLessThan(6000 / 3 + 500);
    const successor = await redis.open().acquire(redis.key, { waitMs: 3000 });
    expect(successor.fencingToken).toBeGreaterThan(other.fencingToken);
    await successor.release();
  }, 15_000);

  it('a pushed grant that is older than its short lease lets nobody in', async () => {
    const slow = await openBehindProxy({ commandTimeoutMs: 5000, watchdogTimeoutMs: 15_000 });
    const holder = redis.open();
    await redis.eyes.untilListening(2);
    const first = await holder.acquire(redis.key);
    let inside = false;
    const waiting = slow.acquire(redis.key).then((lock) => {
      inside = true;
      return lock;
    });
    await redis.eyes.untilQueued(redis.key, 1);
    await until(() => sent(asks).length >= 1);

    // Neither the push arrives, nor can a look find the grant.
    const { pushes, commands } = redis.proxy;
    pushes.replies.hold();
    commands.requests.hold();
    await first.release();
    expect(await redis.eyes.holder(redis.key)).toBeDefined();
    expect(pushes.replies.heldBytes).toBeGreaterThan(0);
    // Its short lease runs out, and another takes the lock.
    await until(async () => (await redis.eyes.client.exists(redis.key)) === 0);
    const third = await redis.open().acquire(redis.key);

    pushes.replies.pass();
    await until(() => sent(isRenewal).length > 0);
    expect(inside).toBe(false);
    commands.requests.pass();
    await redis.eyes.untilQueued(redis.key, 1);
    expect(inside).toBe(false);
    expect(third.validForMs).toBeGreaterThan(0);

    await third.release();
    const last = await waiting;
    expect(last.fencingToken).toBeGreaterThan(third.fencingToken);
    await last.release();
  }, 15_000);

  it('a grant is believed in from the moment of asking, however long its answer took', async () => {
    const service = await openBehindProxy({ commandTimeoutMs: 1000, watchdogTimeoutMs: 3000 });
    redis.proxy.commands.replies.pass(600);
    const lock = await service.acquire(redis.key);
    expect(lock.validForMs).toBeLessThan(3000 - 600);
    expect(await redis.eyes.client.pttl(redis.key)).toBeGreaterThan(lock.validForMs);
    await lock.release();
  });

  describe('a lease that is extended while an earlier request for less is on its way', () => {
    const executed = async () =>
      /cmdstat_evalsha:calls=(\d+)/.exec(await redis.eyes.client.info('commandstats'))?.[1];
    const deliverLate = async (stuck: ReturnType<typeof lastLink>) => {
      const before = await executed();
      stuck.deliverLate();
      await until(async () => (await executed()) !== before);
    };
    const lastLink = () => redis.proxy.commands;

    /** The connection breaks while `extend(1500)` is on it. */
    const holdShortened = async () => {
      const service = await openBehindProxy({ commandTimeoutMs: 1000 });
      const lock = await service.acquire(redis.key, { leaseMs: 5000 });
      const stuck = lastLink();
      stuck.requests.hold();
      const shortened = lock.extend(1500);
      await until(() => stuck.commands.some(isRenewal));
      stuck.reset();
      await expect(shortened).rejects.toThrow('did not answer');
      return { lock, stuck };
    };

    it('is believed in for no longer than the server keeps it', async () => {
      const { lock, stuck } = await holdShortened();
      const extended = lock.extend(20_000);
      await until(async () => (await redis.eyes.client.pttl(redis.key)) > 15_000);
      await deliverLate(stuck);
      expect(await redis.eyes.client.pttl(redis.key)).toBeLessThanOrEqual(1500);
      expect(lock.validForMs).toBeLessThan(1500);
      await extended;
      expect(lock.validForMs).toBeGreaterThan(15_000);
      expect(await redis.eyes.client.pttl(redis.key)).toBeGreaterThan(lock.validForMs);
      await lock.release();
    }, 15_000);

    it('is kept in full once the extension is told of', async () => {
      const { lock, stuck } = await holdShortened();
      await lock.extend(20_000);
      await deliverLate(stuck);
      expect(await redis.eyes.client.pttl(redis.key)).toBeGreaterThan(lock.validForMs);
      expect(lock.validForMs).toBeGreaterThan(15_000);
      await lock.release();
    }, 15_000);

    it('is kept in full if that request was an acquire', async () => {
      const service = await openBehindProxy({ commandTimeoutMs: 1000 });
      const stuck = lastLink();
      stuck.requests.hold();
      const acquiring = service.acquire(redis.key, { leaseMs: 2000 });
      await until(() => stuck.commands.some(asks));
      stuck.reset();
      const lock = await acquiring;
      await lock.extend(20_000);
      await deliverLate(stuck);
      expect(await redis.eyes.client.pttl(redis.key)).toBeGreaterThan(lock.validForMs);
      expect(lock.validForMs).toBeGreaterThan(15_000);
      await lock.release();
    }, 15_000);
  });

  it('renewals over a network almost as slow as a command may be keep the lock', async () => {
    const service = await openBehindProxy({ commandTimeoutMs: 500, watchdogTimeoutMs: 1500 });
    const events = eventsOf(service);
    const lock = await service.acquire(redis.key);
    redis.proxy.commands.replies.pass(350);
    await until(() => sent(isRenewal).length >= 5);
    expect(lock.validForMs).toBeGreaterThan(0);
    expect(events.filter(({ type }) => type === 'suspended' || type === 'lost')).toEqual([]);
    await lock.release();
  });

  it('renewals that are sent once more one by one leave alone what was given back meanwhile', async () => {
    const service = await openBehindProxy({ watchdogTimeoutMs: 3000, commandTimeoutMs: 900 });
    const spoiled = [1, 2, 3, 4, 5, 6].map((n) => `${redis.key}:data:${n}`);
    for (const name of spoiled) await service.acquire(name);
    const kept = await service.acquire(redis.key, { holdAtLeastMs: 1500 });
    // They spoil the batch that it is renewed in.
    for (const name of spoiled) await redis.eyes.client.set(name, 'data');
    const link = redis.proxy.commands;
    link.replies.hold();
    await until(() => sent((it) => wireName(it) === 'renew-all' && it.includes(redis.key)).length > 0);
    const released = kept.release();
    await until(
      () => sent((command) => wireName(command) === 'release' && command[3] === redis.key).length > 0,
    );
    link.replies.pass();
    await released;
    expect(await elapsed(until(async () => (await redis.eyes.client.exists(redis.key)) === 0))).toBeLessThan(
      2400,
    );
  }, 20_000);
});
