import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { LockEvent, LockStoreError } from 'nestjs-distributed-lock';
import { ownRedis } from '../../support/own-redis.js';
import { eventsOf } from '../../support/events.js';
import { failureOf, openService } from '../../support/lock-services.js';
import { until } from '#until';

const page = readFileSync(new URL('../../../.github/SECURITY.md', import.meta.url), 'utf8');
const [, line = ''] = /^ACL SETUSER locks (.+)$/m.exec(page) ?? [];
const all = line.split(' ');
const needed = all.filter((word) => /^[~&+]/.test(word));

describe('a Redis user', () => {
  const redis = ownRedis('rights');
  let count = 0;

  /** A new user with the rights of SECURITY.md but some, and a service that connects as this one. */
  const openAs = async (but: readonly string[], options: Parameters<typeof openService>[1] = {}) => {
    const user = `user-${++count}`;
    await redis.eyes.client.acl('SETUSER', user, ...all.filter((word) => !but.includes(word)));
    const url = redis.url.replace('//', `//${user}:secret@`);
    const service = openService(url, { keyPrefix: 'lock:', ...options });
    const events = eventsOf(service);
    return { user, service, events };
  };
  const add = (user: string, rule: string) => redis.eyes.client.acl('SETUSER', user, ...rule.split(' '));
  const told = (events: readonly LockEvent[]) =>
    events.flatMap((event) => (event.type === 'error' ? [event.error as LockStoreError] : []));
  /** The words that an error says are to be added for `user`. */
  const ruleOf = (error: unknown, user: string) => String(error).split(`ACL SETUSER ${user} `)[1];

  it.each(['+hset', '+evalsha', '+time', '~lock:*', '~nest_lock_*lock:*'])(
    'without %s is told so by the first acquire, and gets locks once it has all that the message names',
    async (word) => {
      const { user, service } = await openAs([word]);
      const failure = await failureOf(service.acquire('k'));
      expect(failure).toMatchObject({ code: 'LOCK_STORE', reason: 'refused', key: 'k' });
      expect(ruleOf(failure, user)?.split(' ').toSorted()).toEqual(needed.toSorted());
      await add(user, ruleOf(failure, user) as string);
      expect(await service.withLock('k', () => 'mine')).toBe('mine');
    },
  );

  it('is told in the words of the server', async () => {
    const { service } = await openAs(['+evalsha']);
    expect(String(await failureOf(service.acquire('k')))).toMatch(/\(NOPERM .*'evalsha' command/);
  });

  it('that may not count replicas is told so where they are counted', async () => {
    const { service } = await openAs([], { minReplicaAcks: 1 });
    expect(String(await failureOf(service.acquire('k')))).toMatch(/NOPERM .*'wait' command/);
  });

  it.each(['+subscribe', '+unsubscribe'])('without %s is told so, and gets its locks', async (word) => {
    const { user, service, events } = await openAs([word]);
    expect(await service.withLock('k', () => 'mine')).toBe('mine');
    await until(() => told(events).length > 0);
    expect(told(events).map((error) => ruleOf(error, user))).toEqual([word]);
  });

  it('that loses a right at work is told which, by the first answer that needs it', async () => {
    const { user, service } = await openAs([]);
    await service.withLock('k', () => undefined);
    await redis.eyes.client.acl('SETUSER', user, '-hset');
    const failure = await failureOf(service.acquire('k'));
    expect(ruleOf(failure, user)).toContain('+hset');
    expect(String((failure as Error).cause)).toMatch(/can't run|permissions to run/);
  });

  it('that is denied halfway through asking leaves no ticket in the queue', async () => {
    const { user, service } = await openAs([]);
    await service.withLock('k', () => undefined);
    const held = await redis.open({ keyPrefix: 'lock:' }).acquire('k');
    await redis.eyes.client.acl('SETUSER', user, '-publish');
    expect(await failureOf(service.acquire('k'))).toMatchObject({ reason: 'refused' });
    await until(async () => (await redis.eyes.queue('lock:k')).length === 0);
    await held.release();
  });

  it('that is denied halfway through taking several keys holds none of them', async () => {
    const { user, service } = await openAs([]);
    await service.withLock('k', () => undefined);
    await redis.eyes.client.acl('SETUSER', user, '-pexpire');
    expect(await failureOf(service.acquire(['a', 'b']))).toMatchObject({ reason: 'refused' });
    await until(async () => (await redis.eyes.client.exists('lock:a', 'lock:b')) === 0);
  });
});
