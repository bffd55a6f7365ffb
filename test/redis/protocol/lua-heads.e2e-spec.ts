import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { storeThatCan } from '../../../libs/distributed-lock/src/port/capabilities.js';
import { Redis } from 'ioredis';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { systemClock } from '../../../libs/distributed-lock/src/common/clock.js';
import { type LockStore, placeholderOf } from '../../../libs/distributed-lock/src/port/lock-store.js';
import { redisKeys } from '../../../libs/distributed-lock/src/redis/keys.js';
import { SCRIPTS } from '../../../libs/distributed-lock/src/redis/scripts/script-command.js';
import { optionsOf, recordedRedis, type ScriptCall } from '../../support/recorded-redis.js';
import { until } from '#until';

const FOLDER = new URL('../../../libs/distributed-lock/src/redis/scripts/', import.meta.url);
const { renewPlain, ...others } = SCRIPTS;
const BY_NAME = { ...others, 'renew-plain': renewPlain };
type Name = keyof typeof BY_NAME;
const NAMES = Object.keys(BY_NAME) as Name[];
/** The script that takes one lock or several: one or two in this test. */
const isForSeveral = (name: Name) => name === 'renew-plain';

interface Head {
  readonly keys: readonly string[];
  readonly args: readonly string[];
  /** The fields of the argument "options". */
  readonly options: readonly string[];
  /** How many arguments each further lock adds. */
  readonly perLock: number;
  /** Its commonest reply is a single number. */
  readonly isShort: boolean;
  /** How many parts each other kind of reply has, not counting a last one that stands for any number of them. */
  readonly replies: readonly number[];
  readonly isOpen: boolean;
}

const read = (file: string) => readFileSync(new URL(file, FOLDER), 'utf8');
const source = (name: Name) => read(`lua/${name}.lua`);

/** The comment at the top of a script, up to its first line of code. */
function headOf(text: string): Head {
  const head = text.split('\n\n')[0] ?? '';
  const numbered = (word: string) => {
    // A list that does not fit goes on in the next line, indented.
    const [, line = ''] = new RegExp(`^-- ${word}(.*(?:\\n-- {6}.*)*)$`, 'm').exec(head) ?? [];
    const names = [...line.matchAll(/(\d+) (\w+)/g)];
    names.forEach(([, number], i) => expect(Number(number)).toBe(i + 1));
    return names.map(([, , name = '']) => name);
  };
  const [, options = ''] = /^-- Options +([\w, ]+):/m.exec(head) ?? [];
  const perLock = head.includes('the last four for each further lock') ? 4 : 0;
  const replies = [...head.matchAll(/\{(.+?)\}/g)].map(([, inside = '']) => {
    return inside.split(',').filter((part) => !part.endsWith('...')).length;
  });
  const isOpen = head.includes('...}');
  const isShort = /^-- Reply {2}(?!\{)/m.test(head);
  const fields = options.split(', ').filter((field) => field !== '');
  return {
    isOpen,
    isShort,
    perLock,
    keys: numbered('KEYS'),
    args: numbered('ARGV'),
    options: fields,
    replies,
  };
}

/** The numbers that a script, with all that it includes, takes from KEYS or ARGV. */
function used(word: 'KEYS' | 'ARGV', name: Name): number[] {
  const withIncludes = (text: string): string =>
    text.replace(/^\s*--@include (\S+)$/gm, (_line, file: string) => withIncludes(read(`lua/${file}`)));
  const numbers = withIncludes(source(name))
    .split('\n')
    .map((line) => line.replace(/--.*$/, ''))
    .flatMap((line) => [...line.matchAll(new RegExp(`${word}\\[(\\d+)\\]`, 'g'))])
    .map(([, number]) => Number(number));
  return [...new Set(numbers)].sort((a, b) => a - b);
}

/** The parts of each table that a script returns as it is written. */
function returned(name: Name): number[] {
  const tables = [...source(name).matchAll(/(?:return|local reply =) \{ (.+) \}/g)];
  return tables.map(([, inside = '']) => partsOf(inside));
}

/** Commas outside of parentheses, and one. */
function partsOf(text: string): number {
  let depth = 0;
  let parts = 1;
  for (const letter of text) {
    if (letter === '(') depth += 1;
    if (letter === ')') depth -= 1;
    if (letter === ',' && depth === 0) parts += 1;
  }
  return parts;
}

const calls: ScriptCall[] = [];
const key = `heads:${randomUUID()}`;
let store: LockStore;

const callsOf = (name: Name) => calls.filter(({ sha }) => sha === BY_NAME[name].sha);
/** Of acquire, the last argument comes with the restart guard alone. */
const withoutGuard = (args: readonly string[]) => args.filter((arg, i) => arg !== 'longest' || i < 5);
const only = (values: readonly number[]) => [...new Set(values)].sort((a, b) => a - b);

/** By the names in the head: what the store passes where, with the fields of the options. */
function passed(name: Name, which = 0): Record<string, unknown> {
  const call = callsOf(name)[which]!;
  const { args, options } = headOf(source(name));
  const named = Object.fromEntries(args.map((arg, i) => [arg, call.args[i]]));
  const flags = named['options']?.slice(0, 2);
  const fields = optionsOf(call.args);
  expect(options).toEqual(expect.arrayContaining(Object.keys(fields)));
  return { ...named, flags, ...fields };
}

/** Everything that the store can be asked, with every kind of answer. */
beforeAll(async () => {
  const target = recordedRedis(process.env['REDIS_URL'] as string, calls);
  store = redisStore(target).create({ clock: systemClock, keyPrefix: 'p:', watchdogTimeoutMs: 30_000 });
  const idOf = (n: number) => `${store.clientId}:${n}`;
  const [one, two, three, four, five, six] = [idOf(1), idOf(2), idOf(3), idOf(11), idOf(12), idOf(13)];
  const claim = { kind: 'lock' } as const;
  const ask = { key, claim, leaseMs: 7000, mayWait: false, ticket: 0, tokens: 3 };
  const grant = await store.acquire({ ...ask, owner: one });
  if (grant.kind !== 'granted') throw new Error('the key should be free');
  const { token, lastToken } = grant;
  await store.acquire({ ...ask, owner: two });
  await store.acquire({ ...ask, owner: three, mayWait: true, ticket: 77 });
  await store.renew([{ key, owner: one, claim, leaseMs: 8000, token, lastToken }]);
  await store.renew([{ key, owner: two, claim, leaseMs: 8000, token, lastToken }]);
  await store.renew([{ key, owner: one, claim: { kind: 'exclusive' }, leaseMs: 8000, token, lastToken }]);
  await store.inspect(key);
  const several = [4, 5].map((n) => ({ ...ask, key: `${key}:${n}`, owner: `${store.clientId}:${n}` }));
  await store.renew(several.map((request) => ({ ...request, token, lastToken })));
  await store.release({ key, owner: one, claim, leaseMs: 7000, used: { token: token + 1, lastToken } });
  await store.release({ key, owner: two, claim, leaseMs: 7000 });
  await storeThatCan(store, 'force').forceRelease(key);
  const detached = await store.acquire({ ...ask, owner: four, tokens: 1 });
  if (detached.kind !== 'granted') throw new Error('the key should be free');
  const from = placeholderOf(four);
  await store.release({ key, owner: four, claim, leaseMs: 7000, holdUntil: systemClock.now() + 7000 });
  const attach = { ...ask, from, token: detached.token };
  for (const owner of [five, six]) await storeThatCan(store, 'attach').attach({ ...attach, owner });
  await until(() => NAMES.every((name) => callsOf(name).length > 0));
});

afterAll(() => store.close());

describe.each(NAMES)('%s.lua', (name) => {
  it('is called with as many keys and arguments as its head names', () => {
    const { keys, args, perLock } = headOf(source(name));
    expect(keys.slice(0, 5)).toEqual(['lock', 'queue', 'notes', 'token', 'channel']);
    expect(callsOf(name).length).toBeGreaterThan(0);
    for (const call of callsOf(name)) {
      const isOfTwo = isForSeveral(name) && call.keys.length > 5;
      const locks = isOfTwo ? [`p:${key}:4`, `p:${key}:5`] : [`p:${key}`];
      const kind = name === 'renew' ? 'exclusive' : 'lock';
      expect(call.keys).toEqual(locks.flatMap((lock) => redisKeys(lock, kind)));
      expect(call.args).toHaveLength(withoutGuard(args).length + (isOfTwo ? perLock : 0));
    }
  });

  it('uses what its head names, and nothing else', () => {
    const { keys, args } = headOf(source(name));
    const common = isForSeveral(name) ? args.length - 4 : args.length;
    expect(used('ARGV', name)).toEqual(args.slice(0, common).map((_, i) => i + 1));
    for (const number of used('KEYS', name)) expect(number).toBeLessThanOrEqual(keys.length);
  });

  it('answers with as many parts as its head says', () => {
    const { replies, isOpen, isShort } = headOf(source(name));
    const tables = callsOf(name).flatMap(({ reply }) => (Array.isArray(reply) ? [reply] : []));
    expect(tables.length === callsOf(name).length || isShort).toBe(true);
    const answered = tables.map((reply) => reply.length);
    const fits = (parts: number) => replies.some((n) => (isOpen ? parts >= n : parts === n));
    expect(answered.every(fits)).toBe(true);
    expect(only(returned(name))).toEqual(only(replies));
  });
});

describe('every script', () => {
  const files = readdirSync(new URL('lua/', FOLDER)).filter((file) => file.endsWith('.lua'));

  it('is checked here', () => {
    expect(files.toSorted()).toEqual(NAMES.map((name) => `${name}.lua`).toSorted());
  });

  it('starts its head with its own name, and so does each part in lib/', () => {
    const parts = readdirSync(new URL('lua/lib/', FOLDER)).map((file) => `lib/${file}`);
    for (const file of [...files, ...parts]) {
      expect(read(`lua/${file}`).startsWith(`-- ${file.replace('lib/', '')}: `)).toBe(true);
    }
  });
});

describe('the arguments of the scripts', () => {
  it('stand where the heads say: acquire', () => {
    const owner = `${store.clientId}:3`;
    expect(passed('acquire', 2)).toMatchObject({ owner, lease: '7000', wait: 3000, ticket: '77', tokens: 3 });
    expect(passed('acquire', 2)).toMatchObject({ cluster: false, publish: 'PUBLISH' });
    expect(passed('acquire', 0)).toMatchObject({ wait: 0, ticket: '0', min_token: '0' });
    // A second, and the longest way to the server and back.
    expect(Number(passed('acquire', 0)['initial_lease'])).toBeGreaterThanOrEqual(1000);
    const notAfter = Number(passed('acquire', 0)['notAfter']);
    expect(Math.abs(notAfter - Date.now())).toBeLessThan(60_000);
    expect(Number(passed('acquire', 2)['min_token'])).toBeGreaterThan(Date.now() * 1000 - 60_000_000);
  });

  it('stand where the heads say: attach', () => {
    const [, , token] = callsOf('attach')[0]!.reply as number[];
    const owner = `${store.clientId}:12`;
    const from = `${store.clientId}:-11`;
    expect(passed('attach')).toMatchObject({ owner, from, token: `${token}`, lease: '7000', kind: 'lock' });
    expect(passed('attach')).toMatchObject({ cluster: false, publish: 'PUBLISH' });
    expect(Math.abs(Number(passed('attach')['notAfter']) - Date.now())).toBeLessThan(60_000);
    expect(callsOf('attach').map(({ reply }) => (reply as number[])[0])).toEqual([1, 3]);
  });

  it('stand where the heads say: renew, end and force', () => {
    const owner = `${store.clientId}:1`;
    const [, , first, last] = callsOf('acquire')[0]!.reply as [number, number, number, number];
    const renewed = { owner, lease: '8000', first: `${first}`, last: `${last}` };
    expect(passed('renew')).toMatchObject({ ...renewed, kind: 'exclusive', publish: 'PUBLISH' });
    expect(passed('renew-plain')).toMatchObject({ ...renewed, publish: 'PUBLISH' });
    expect(callsOf('renew-plain').map(({ keys }) => keys.length)).toEqual([5, 5, 10]);
    expect(passed('release')).toMatchObject({
      owner,
      used: `${first + 1}`,
      reserved: `${last}`,
      cluster: false,
      flags: 'p-',
    });
    expect(passed('release', 1)).toMatchObject({ owner: `${store.clientId}:2`, kind: 'lock', flags: 'ps' });
    expect(Number(passed('release')['min_token'])).toBe(first + 1);
    expect(Number(passed('force')['min_token'])).toBeGreaterThanOrEqual(first + 1);
    expect(passed('force')).toMatchObject({ cluster: '0', publish: 'PUBLISH', by: '', owners: '' });
  });
});

describe('a waiter that does not hear of its grant', () => {
  it('uses up no tokens', async () => {
    const other = `${key}:deaf`;
    const redis = new Redis(process.env['REDIS_URL'] as string);
    await until(async () => (await redis.pubsub('CHANNELS', `*${store.clientId}`)).length > 0);
    const ask = { key: other, claim: { kind: 'lock' } as const, leaseMs: 1000, mayWait: false, ticket: 0 };
    const holder = `${store.clientId}:10`;
    await store.acquire({ ...ask, owner: holder, tokens: 1 });
    const asked = callsOf('acquire').length;
    // Of a client that has no subscription; its tokens would reach into the time after a hundred seconds.
    await store.acquire({ ...ask, owner: `${randomUUID()}:1`, mayWait: true, tokens: 100_000_000 });
    expect(passed('acquire', asked)).toMatchObject({ subscribed: true });
    await store.release({ ...ask, owner: holder });
    const [last = ''] = /\d+$/.exec((await redis.get(redisKeys(`p:${other}`, 'lock')[3])) ?? '') ?? [];
    expect(Number(last)).toBeGreaterThan((Date.now() - 60_000) * 1000);
    expect(Number(last)).toBeLessThan((Date.now() + 60_000) * 1000);
    await redis.quit();
  });
});

describe('the time of the server', () => {
  it('is not taken from a token that is ahead of it', async () => {
    const other = `${key}:ahead`;
    const ahead = (Date.now() + 3_600_000) * 1000;
    const redis = new Redis(process.env['REDIS_URL'] as string);
    await redis.set(redisKeys(`p:${other}`, 'lock')[3], `${ahead} ${ahead}`, 'PX', 60_000);
    await redis.quit();
    const ask = { claim: { kind: 'lock' } as const, leaseMs: 1000, mayWait: false, ticket: 0, tokens: 1 };
    const granted = await store.acquire({ ...ask, key: other, owner: `${store.clientId}:8` });
    expect(granted).toMatchObject({ kind: 'granted', token: ahead + 1 });
    const before = callsOf('acquire').length;
    await store.acquire({ ...ask, key: `${other}:next`, owner: `${store.clientId}:9` });
    const notAfter = Number(passed('acquire', before)['notAfter']);
    expect(Math.abs(notAfter - Date.now())).toBeLessThan(60_000);
  });
});

describe('the embedded scripts', () => {
  it('are what the .lua files say: otherwise run npm run generate', async () => {
    const tool = '../../../tools/embed-lua.mjs';
    const scripts = (await import(tool)) as { embedLua(): string };
    expect(read('lua.generated.ts')).toBe(scripts.embedLua());
  });
});
