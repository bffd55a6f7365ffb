import { afterEach, describe, expect, it } from '@jest/globals';
import { ownRedis } from '../../support/own-redis.js';
import { eventsOf, typesOf } from '../../support/events.js';
import { elapsed, failureOf, openService, untilAborted } from '../../support/lock-services.js';
import { until } from '#until';

const LEASE_MS = 1500;
const COMMAND_MS = 300;
const RECHECK_MS = 1000;
const UNSUBSCRIBED_RECHECK_MS = 250;
const SLACK_MS = 900;

describe('a Redis that says no', () => {
  const redis = ownRedis('no');
  afterEach(async () => {
    await redis.eyes.client.config('SET', 'maxmemory', '0', 'min-replicas-to-write', '0', 'requirepass', '');
    await redis.eyes.client.call('REPLICAOF', 'NO', 'ONE');
  });

  const open = (url = redis.url) =>
    openService(url, { commandTimeoutMs: COMMAND_MS, watchdogTimeoutMs: LEASE_MS });

  describe('for now', () => {
    const states: [code: string, enter: () => Promise<unknown>, leave: () => Promise<unknown>][] = [
      [
        'OOM',
        () => redis.eyes.client.config('SET', 'maxmemory', '1'),
        () => redis.eyes.client.config('SET', 'maxmemory', '0'),
      ],
      [
        'READONLY',
        () => redis.eyes.client.replicaof('127.0.0.1', 1),
        () => redis.eyes.client.call('REPLICAOF', 'NO', 'ONE'),
      ],
      [
        'NOREPLICAS',
        () => redis.eyes.client.config('SET', 'min-replicas-to-write', '1'),
        () => redis.eyes.client.config('SET', 'min-replicas-to-write', '0'),
      ],
    ];

    it.each(states)(
      '%s fails an acquire by its waitMs with the answer as its cause, and heals by itself',
      async (code, enter, leave) => {
        const service = open();
        await service.withLock(`${redis.key}:warm`, () => undefined);
        await enter();
        const failure = failureOf(service.acquire(redis.key, { waitMs: 600 }));
        expect(await elapsed(failure)).toBeLessThan(600 + COMMAND_MS + SLACK_MS);
        expect(await failure).toMatchObject({ code: 'LOCK_STORE', reason: 'unready', key: redis.key });
        expect(String(await failure)).toMatch(code);
        expect(await failureOf(service.tryAcquire(redis.key))).toMatchObject({ code: 'LOCK_STORE' });
        const patient = service.acquire(redis.key, { waitMs: 10_000 });
        await leave();
        expect(await elapsed(patient)).toBeLessThan(RECHECK_MS + SLACK_MS);
        await (await patient).release();
      },
    );

    it('a connection that is answered READONLY is replaced, as the master may be elsewhere now', async () => {
      const service = open(redis.proxy.url);
      // Released for certain: an end that is answered READONLY would replace the connection, too.
      await (await service.acquire(`${redis.key}:warm`)).release();
      const demoted = redis.proxy.commands;
      await redis.eyes.client.replicaof('127.0.0.1', 1);
      expect(await failureOf(service.tryAcquire(redis.key))).toMatchObject({
        code: 'LOCK_STORE',
        reason: 'unready',
      });
      await until(() => !demoted.isOpen && redis.proxy.commands.isOpen);
    });

    it('a server out of memory still takes a release, and passes the lock on', async () => {
      const [holder, waiting] = [open(), open()];
      const lock = await holder.acquire(redis.key);
      const next = waiting.acquire(redis.key);
      await redis.eyes.untilQueued(redis.key, 1);
      await redis.eyes.client.config('SET', 'maxmemory', '1');
      expect(await lock.release()).toBe('released');
      expect(await elapsed(next)).toBeLessThan(SLACK_MS);
      expect(await (await next).release()).toBe('released');
      expect(await redis.eyes.remains(redis.key)).toEqual([]);
    });

    it('a server out of memory still renews', async () => {
      const service = open();
      const events = eventsOf(service);
      const lock = await service.acquire(redis.key);
      await redis.eyes.client.config('SET', 'maxmemory', '1');
      await redis.eyes.untilRenewed(redis.key);
      await redis.eyes.untilRenewed(redis.key);
      expect(lock.validForMs).toBeGreaterThan(0);
      expect(typesOf(events)).toEqual(['acquired']);
      await lock.release();
    });

    it('a holder whose server becomes read-only for good loses its lock at its deadline, and not by an error', async () => {
      const service = open();
      const events = eventsOf(service);
      const lock = await service.acquire(redis.key);
      await redis.eyes.client.replicaof('127.0.0.1', 1);
      const told = await elapsed(untilAborted(lock.signal));
      expect(told).toBeLessThan(LEASE_MS + 100);
      expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
      expect(typesOf(events)).toEqual(['acquired', 'suspended', 'lost']);
    });
  });

  describe('for good', () => {
    const asUser = async (name: string, ...rules: string[]) => {
      await redis.eyes.client.acl('SETUSER', name, 'reset', 'on', '>secret', '~*', '&*', '+@all', ...rules);
      return redis.url.replace('redis://', `redis://${name}:secret@`);
    };

    it('more keys that hold data than may be asked for at once are each told so, on the same connection', async () => {
      const keys = Array.from({ length: 3000 }, (_, i) => `${redis.key}:${i}`);
      await redis.eyes.client.mset(keys.flatMap((name) => [name, 'stock']));
      // A busy machine must not look like a connection that has died.
      const service = redis.open({ commandTimeoutMs: 10_000 });
      await service.withLock(redis.key, () => undefined);
      await redis.eyes.untilListening(1);
      const before = await redis.eyes.connectionsReceived();
      const errors = await Promise.all(keys.map((name) => failureOf(service.acquire(name))));
      expect(await redis.eyes.connectionsReceived()).toBe(before);
      expect(errors.filter((error) => !String(error).includes('is a string in Redis'))).toEqual([]);
    });

    it('a user that may publish no more leaves no lock behind, and the next owner waits for one recheck at most', async () => {
      const mute = open(await asUser('mute'));
      const lock = await mute.acquire(redis.key);
      await redis.eyes.client.acl('SETUSER', 'mute', '-publish');
      const next = open().acquire(redis.key);
      await redis.eyes.untilQueued(redis.key, 1);
      void lock.release();
      expect(await elapsed(next)).toBeLessThan(RECHECK_MS + SLACK_MS);
      await (await next).release();
      expect(await redis.eyes.remains(redis.key)).toEqual([]);
    });

    it('a user that may not subscribe finds its grants by looking', async () => {
      const deaf = open(await asUser('deaf', '-subscribe'));
      await deaf.withLock(`${redis.key}:warm`, () => undefined);
      const lock = await open().acquire(redis.key);
      const next = deaf.acquire(redis.key);
      await redis.eyes.untilQueued(redis.key, 1);
      await lock.release();
      expect(await elapsed(next)).toBeLessThan(UNSUBSCRIBED_RECHECK_MS + SLACK_MS);
      expect((await next).fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(await (await next).release()).toBe('released');
    });

    it('a user that may not subscribe is not passed over by one that is subscribed', async () => {
      const [deaf, hearing] = [open(await asUser('deaf', '-subscribe')), open()];
      await hearing.withLock(`${redis.key}:warm`, () => undefined);
      await redis.eyes.untilListening(1);
      const served: string[] = [];
      const lock = await hearing.acquire(redis.key);
      const turns = [deaf.withLock(redis.key, () => void served.push('deaf'))];
      await redis.eyes.untilQueued(redis.key, 1);
      turns.push(hearing.withLock(redis.key, { fair: true }, () => void served.push('hearing')));
      await redis.eyes.untilQueued(redis.key, 2);
      await lock.release();
      await Promise.all(turns);
      expect(served).toEqual(['deaf', 'hearing']);
    });

    it('a user whose channels are restricted is told by the first acquire that meets a holder', async () => {
      const url = await asUser('shut', 'resetchannels');
      const deaf = open(url);
      const lock = await open().acquire(redis.key);
      const failure = failureOf(deaf.acquire(redis.key));
      expect(await failure).toMatchObject({ code: 'LOCK_STORE', reason: 'refused' });
      await lock.release();
    });

    it.each([
      ['wrong', ':wrong@', 'WRONGPASS'],
      ['missing', '', 'Redis asks for a password: give it in the URL, as redis://:password@host'],
    ])('a %s password is told by the first acquire', async (_, user, said) => {
      await redis.eyes.client.config('SET', 'requirepass', 'secret');
      const service = open(redis.url.replace('redis://', `redis://${user}`));
      const failure = failureOf(service.acquire(redis.key, { waitMs: 600 }));
      expect(await elapsed(failure)).toBeLessThan(600 + COMMAND_MS + SLACK_MS);
      expect(await failure).toMatchObject({ code: 'LOCK_STORE' });
      expect(String(await failure)).toMatch(said);
    });
  });
});
