import { readFileSync, readdirSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { LockEvent, LockStoreError } from 'nestjs-distributed-lock';
import { startRedisServer } from '#redis-server';
import { systemChance } from '../../../libs/distributed-lock/src/time/chance.js';
import { scriptProbes } from '../../../libs/distributed-lock/src/stores/redis/scripts/access-probes.js';
import {
  acquireScript,
  releaseScript,
} from '../../../libs/distributed-lock/src/stores/redis/scripts/scripts.js';
import { ownRedis } from '../../support/own-redis.js';
import { eventsOf } from '../../support/events.js';
import { closeServices, failureOf, openService } from '../../support/lock-services.js';
import { RedisEyes } from '../../support/redis-eyes.js';
import { until } from '#until';

const page = readFileSync(new URL('../../../SECURITY.md', import.meta.url), 'utf8');
const [, line = ''] = /^ACL SETUSER locks (.+)$/m.exec(page) ?? [];
const all = line.split(' ');
/** Without these a client connects, sends scripts in full, and those who wait look instead of listening. */
const SPARE = ['+info', '+ping', '+subscribe', '+unsubscribe', '+script|exists', '+script|load'];
const needed = all.filter((word) => /^[~&+]/.test(word) && !SPARE.includes(word));
const LUA = new URL('../../../libs/distributed-lock/src/stores/redis/scripts/lua/', import.meta.url);

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

  it.each(needed)(
    'without %s is told so by the first acquire, and gets locks once it is added',
    async (word) => {
      const { user, service } = await openAs([word]);
      const failure = await failureOf(service.acquire('k'));
      expect(failure).toMatchObject({ code: 'LOCK_STORE', reason: 'refused', key: 'k' });
      expect(ruleOf(failure, user)).toBe(word);
      await add(user, word);
      expect(await service.withLock('k', () => 'mine')).toBe('mine');
    },
  );

  it('without any right is told all of them at once, and needs no other', async () => {
    const { user, service } = await openAs(needed);
    const failure = await failureOf(service.acquire('k'));
    // Which keys and channels it lacks is not said of a command that it may not run.
    const commands = needed.filter((word) => word.startsWith('+'));
    expect(ruleOf(failure, user)?.split(' ').toSorted()).toEqual(commands.toSorted());
    await add(user, commands.join(' '));
    const next = await failureOf(service.acquire('k'));
    const names = needed.filter((word) => !word.startsWith('+'));
    expect(ruleOf(next, user)?.split(' ').toSorted()).toEqual(names.toSorted());
    await add(user, names.join(' '));
    expect(await service.withLock('k', () => 'mine')).toBe('mine');
  });

  it('that may not count replicas is told so where they are counted', async () => {
    const { user, service } = await openAs([], { minReplicaAcks: 1 });
    expect(ruleOf(await failureOf(service.acquire('k')), user)).toBe('+wait');
  });

  it('that lacks a right is told in the log of the start, once, before anybody asks', async () => {
    const { user, service, events } = await openAs(['+publish', '&nest_lock_notify:*']);
    await until(() => told(events).length > 0);
    await Promise.all([1, 2, 3].map(() => failureOf(service.tryAcquire('k'))));
    expect(events.filter(({ type }) => type === 'error')).toMatchObject([{ during: 'check of rights' }]);
    expect(told(events).map((error) => ruleOf(error, user))).toEqual(['+publish']);
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
    expect(ruleOf(failure, user)).toBe('+hset');
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

  it('with all rights leaves no trace of the check', async () => {
    await redis.eyes.client.call('ACL', 'LOG', 'RESET');
    const { service, events } = await openAs([]);
    await service.inspect('k');
    await redis.eyes.untilListening(1);
    const refused = ((await redis.eyes.client.call('ACL', 'LOG')) as string[][]).map((entry) => entry[7]);
    // What ioredis tells about itself.
    expect(refused.filter((object) => !object?.startsWith('client'))).toEqual([]);
    expect((await redis.eyes.client.keys('*')).filter((name) => name.includes('rights'))).toEqual([]);
    expect(events).toEqual([]);
  });

  it('is checked by two commands ahead of the first question for the time', async () => {
    await openService(redis.proxy.url).withLock('k', () => undefined);
    const names = redis.proxy.commands.commands.map(([name = '']) => name.toLowerCase());
    expect(names.slice(names.indexOf('info') + 1, names.indexOf('time') + 1)).toEqual([
      'evalsha',
      'eval',
      'script',
      'time',
    ]);
  });
});

describe('the check of rights', () => {
  it('tries every command of the scripts, and no other', () => {
    const sources = readdirSync(LUA, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.lua'))
      .map((file) => readFileSync(new URL(file, LUA), 'utf8'));
    const called = sources.flatMap((lua) =>
      [...lua.matchAll(/redis\.call\('(\w+)'/g)].map(([, name = '']) => name),
    );
    const tried = scriptProbes('', false, systemChance).map(([name]) => name);
    expect([...new Set(tried)].toSorted()).toEqual(
      [...new Set(called)].map((it) => it.toLowerCase()).toSorted(),
    );
  });

  it('stands in nobody’s way where it cannot be made', async () => {
    const server = await startRedisServer({ args: ['--rename-command', 'EVAL', 'ELSEWHERE'] });
    const eyes = new RedisEyes(server.url);
    for (const { lua } of [acquireScript, releaseScript]) await eyes.client.script('LOAD', lua);
    const service = openService(server.url);
    const events = eventsOf(service);
    expect(await service.withLock('k', () => 'mine')).toBe('mine');
    expect(events.filter(({ type }) => type === 'error')).toEqual([]);
    await closeServices();
    eyes.close();
    await server.stop();
  });
});
