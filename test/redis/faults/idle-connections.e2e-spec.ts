import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Clock, LockService } from 'nestjs-distributed-lock';
import { KEEP_ALIVE_MS } from '../../../libs/distributed-lock/src/connection/timing.js';
import { systemClock } from '../../../libs/distributed-lock/src/common/clock.js';
import { until } from '#until';
import { eventsOf, typesOf } from '../../support/events.js';
import { elapsed, openService } from '../../support/lock-services.js';
import { LIBRARIES } from '../../support/redis-library.js';
import { ownRedis } from '../../support/own-redis.js';

const RECHECK_MS = 1000;
const SLACK_MS = 900;
/** A second connection is asked after half of it, so the rest must do for a new connection on a busy machine. */
const COMMAND_MS = 2000;

describe.each(LIBRARIES)(
  'a connection that the network forgets when it is idle, without telling anybody, by %s',
  (library) => {
    const redis = ownRedis('idle', { library });
    const FORGETS_AFTER_MS = 700;

    beforeEach(() => {
      redis.proxy.onLink = (link) => (link.forgetsAfterMs = FORGETS_AFTER_MS);
    });

    const idle = () => new Promise((resolve) => setTimeout(resolve, FORGETS_AFTER_MS + 100));
    /** Both connections stand, and nobody has used them for a while. */
    const openIdleService = async (options: Parameters<typeof openService>[1] = {}) => {
      const service = openService(redis.targetOf(redis.proxy.url), {
        commandTimeoutMs: COMMAND_MS,
        ...options,
      });
      await service.withLock(redis.key, () => undefined);
      await redis.eyes.untilListening(1);
      await idle();
      return service;
    };
    const forgotten = () => redis.proxy.all.filter((link) => link.requests.droppedBytes > 0).length;

    it('costs a call that asks once no more than the time of one command', async () => {
      const service = await openIdleService();
      for (let night = 1; night <= 2; night++) {
        const asked = service.tryAcquire(redis.key);
        expect(await elapsed(asked)).toBeLessThan(COMMAND_MS);
        expect(forgotten()).toBe(night);
        expect(await (await asked)?.release()).toBe('released');
        await idle();
      }
      expect(await redis.eyes.remains(redis.key)).toEqual([]);
    }, 20_000);

    it('costs a call that asks once for several keys no more than that, and leaves none of them behind', async () => {
      const service = await openIdleService();
      const keys = [`${redis.key}:a`, `${redis.key}:b`];
      const asked = service.acquire(keys, { waitMs: 0 });
      expect(await elapsed(asked)).toBeLessThan(COMMAND_MS);
      expect(forgotten()).toBe(1);
      await (await asked).release();
      expect((await Promise.all(keys.map((each) => redis.eyes.remains(each)))).flat()).toEqual([]);
    });

    it.each<[string, (service: LockService) => Promise<unknown>, unknown]>([
      ['asking once', (service) => service.tryAcquire(redis.key), null],
      [
        'looking at it',
        (service) => service.inspect(redis.key),
        expect.objectContaining({ mode: 'exclusive' }),
      ],
    ])('is not told by %s from a good one: a key that is held is held', async (_, ask, answer) => {
      const service = await openIdleService();
      const lock = await redis.open().acquire(redis.key);
      expect(await ask(service)).toEqual(answer);
      expect(forgotten()).toBe(1);
      expect(await lock.release()).toBe('released');
    });

    it('lets a fixed lease be extended, and given back', async () => {
      const service = await openIdleService();
      const lock = await service.acquire(redis.key, { leaseMs: 30_000 });
      await idle();
      await lock.extend(60_000);
      expect(await redis.eyes.client.pttl(redis.key)).toBeGreaterThan(50_000);
      await idle();
      const released = lock.release();
      expect(await elapsed(released)).toBeLessThan(4 * COMMAND_MS);
      expect(await released).toBe('released');
      expect(forgotten()).toBe(3);
      expect(await redis.eyes.remains(redis.key)).toEqual([]);
    }, 10_000);

    it.each([
      ['a connection that stands', Infinity],
      ['one that is forgotten', FORGETS_AFTER_MS],
    ])(
      'and a server that is slow, over %s: the call is answered by its one command',
      async (_, forgetsAfterMs) => {
        redis.proxy.onLink = (link) => (link.forgetsAfterMs = forgetsAfterMs);
        const service = await openIdleService({ commandTimeoutMs: 2 * COMMAND_MS });
        await redis.server.pause();
        setTimeout(() => void redis.server.resume(), 1.1 * COMMAND_MS);
        const asked = service.tryAcquire(redis.key);
        expect(await elapsed(asked)).toBeLessThan(2 * COMMAND_MS + SLACK_MS);
        expect(await (await asked)?.release()).toBe('released');
      },
      20_000,
    );

    /** One whose connections stand, until a test says what becomes of their bytes. */
    const openSilentService = (options?: Parameters<typeof openService>[1]) => {
      redis.proxy.onLink = () => undefined;
      return openIdleService(options);
    };
    /** What the old connection carries is executed after it was given up. */
    const deliverLate = () => redis.proxy.all.find((link) => link.requests.heldBytes > 0)?.deliverLate();
    const holdRequests = () => redis.proxy.commands.requests.hold();

    it('and a first copy that is executed late, after the second one was told that the key is held: nobody holds it then', async () => {
      const service = await openSilentService({ commandTimeoutMs: 2000 });
      const lock = await redis.open().acquire(redis.key);
      holdRequests();
      expect(await service.tryAcquire(redis.key)).toBeNull();
      await lock.release();
      deliverLate();
      await until(async () => (await redis.eyes.holder(redis.key)) !== undefined);
      await until(async () => (await redis.eyes.remains(redis.key)).length === 0, 5000);
    }, 10_000);

    it('and a first copy that is executed late, after the second one was let in and has released: nobody holds it then', async () => {
      const service = await openSilentService({ commandTimeoutMs: 2000 });
      holdRequests();
      const released = (await service.tryAcquire(redis.key))?.release();
      await until(async () => (await redis.eyes.holder(redis.key)) === undefined);
      deliverLate();
      await until(async () => (await redis.eyes.holder(redis.key)) !== undefined);
      expect(await released).toBe('released');
      expect(await redis.eyes.remains(redis.key)).toEqual([]);
    }, 10_000);

    it('and several keys whose first copy was executed, and its answer lost: the second copy has them, too', async () => {
      const service = await openSilentService();
      const keys = [`${redis.key}:a`, `${redis.key}:b`];
      redis.proxy.commands.replies.drop();
      const lock = await service.acquire(keys, { waitMs: 0 });
      expect(await lock.release()).toBe('released');
      expect((await Promise.all(keys.map((each) => redis.eyes.remains(each)))).flat()).toEqual([]);
    });

    it('and several keys that are kept for a while: a first copy that is executed late does not keep them for longer', async () => {
      const service = await openSilentService({ commandTimeoutMs: 2000 });
      const keys = [redis.key, `${redis.key}:b`];
      holdRequests();
      await service.withLock(keys, { waitMs: 0, holdAtLeastMs: 10 }, () => undefined);
      await until(async () => (await redis.eyes.holder(redis.key)) === undefined);
      deliverLate();
      await until(async () => (await redis.eyes.holder(redis.key)) !== undefined);
      const holders = async () =>
        (await Promise.all(keys.map((each) => redis.eyes.holder(each)))).filter(Boolean);
      await until(async () => (await holders()).length === 0, 5000);
      expect(await holders()).toEqual([]);
    }, 10_000);

    /** The real one, in a hurry to keep connections alive. */
    const often: Clock = {
      ...systemClock,
      after: (ms, task) => systemClock.after(ms === KEEP_ALIVE_MS ? 300 : ms, task),
    };

    it('is never idle for so long: both connections are used now and then', async () => {
      redis.proxy.onLink = (link) => (link.forgetsAfterMs = 2 * FORGETS_AFTER_MS);
      const service = await openIdleService({ clock: often });
      for (let i = 0; i < 4; i++) await idle();
      expect(redis.proxy.all).toHaveLength(2);
      expect(forgotten()).toBe(0);
      await (await service.acquire(redis.key, { waitMs: 0 })).release();
    });

    it('is noticed and replaced before anybody needs it', async () => {
      await openIdleService({ clock: often });
      const old = [...redis.proxy.all];
      for (const link of old) link.vanish();
      await until(() => old.every((link) => !link.isOpen) && redis.proxy.open.length === 2);
      await redis.eyes.untilListening(1);
      expect(forgotten()).toBe(2);
    });

    it('costs a waiter whose messages it swallows one recheck at most', async () => {
      const service = await openIdleService({ commandTimeoutMs: 500 });
      const lock = await redis.open().acquire(redis.key);
      const next = service.acquire(redis.key);
      await redis.eyes.untilQueued(redis.key, 1);
      await lock.release();
      expect(await elapsed(next)).toBeLessThan(RECHECK_MS + SLACK_MS);
      await (await next).release();
    });

    describe('and a server whose round trip takes most of the time of a command', () => {
      const FAR_MS = 0.7 * COMMAND_MS;

      /** Replies take that long from now on, on connections that stand and on those to come. */
      const moveAway = (ms: number) => {
        redis.proxy.onLink = (link) => link.replies.pass(ms);
        for (const link of redis.proxy.open) link.replies.pass(ms);
      };

      it('fails no call after a pause, and its connections are kept', async () => {
        moveAway(FAR_MS);
        const service = openService(redis.targetOf(redis.proxy.url), {
          commandTimeoutMs: COMMAND_MS,
          watchdogTimeoutMs: 6000,
        });
        const kept = await service.acquire(`${redis.key}:kept`, { waitMs: 10_000 });
        const events = eventsOf(service);
        const commands = redis.proxy.commands;
        for (let pause = 0; pause < 3; pause++) {
          await idle();
          const lock = await service.tryAcquire(redis.key);
          expect(await lock?.release()).toBe('released');
        }
        expect(kept.validForMs).toBeGreaterThan(0);
        expect(await kept.release()).toBe('released');
        expect(commands.isOpen).toBe(true);
        expect(typesOf(events)).not.toContain('suspended');
      }, 30_000);

      it('that was near before fails no call after a pause', async () => {
        moveAway(0);
        const service = openService(redis.targetOf(redis.proxy.url), { commandTimeoutMs: COMMAND_MS });
        await service.withLock(redis.key, () => undefined);
        const commands = redis.proxy.commands;
        await idle();
        moveAway(FAR_MS);
        const asked = service.tryAcquire(redis.key);
        expect(await elapsed(asked)).toBeLessThan(COMMAND_MS);
        expect(await (await asked)?.release()).toBe('released');
        expect(commands.isOpen).toBe(true);
      }, 15_000);
    });
  },
);

describe('a request that the network executes late', () => {
  const redis = ownRedis('late');

  it('after its command was given up: an acquire does nothing then', async () => {
    const service = openService(redis.targetOf(redis.proxy.url), { commandTimeoutMs: 300 });
    await service.withLock(`${redis.key}:warm`, () => undefined);
    const link = redis.proxy.commands;
    link.requests.hold();
    const lock = await service.acquire(redis.key);
    expect(await lock.release()).toBe('released');
    const processed = async () =>
      Number(/^total_commands_processed:(\d+)/m.exec(await redis.eyes.client.info('stats'))?.[1]);
    // Each look is a command itself.
    let own = 1;
    const before = await processed();
    link.deliverLate();
    await until(async () => (await processed()) > before + own++);
    expect(await redis.eyes.remains(redis.key)).toEqual([]);
  });
});
