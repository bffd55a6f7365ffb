import { createHash } from 'node:crypto';
import fc from 'fast-check';
import type { Claim } from '../../../../libs/distributed-lock/src/port/lock-store.js';
import { notificationChannel, redisKeys } from '../../../../libs/distributed-lock/src/redis/keys.js';
import * as lua from '../../../../libs/distributed-lock/src/redis/scripts/lua.generated.js';
import { timeArguments, withPinnedTime } from './pinned-time.js';

const KEYS = ['k', '{k}', 'goods:42'];
const KINDS = ['lock', 'exclusive', 'shared', 'permits'] as const;
const LEASES = [2000, 5000, 30_000];

/** One step of a script's life. Numbers choose among what is there when the step is taken. */
interface ScriptStep {
  readonly do:
    | 'acquire'
    | 'renew'
    | 'renewAll'
    | 'release'
    | 'force'
    | 'inspect'
    | 'subscribe'
    | 'listen'
    | 'data'
    | 'memory'
    | 'rights';
  readonly client: number;
  readonly owner: number;
  readonly key: string;
  readonly kind: Claim['kind'];
  readonly leaseMs: number;
  readonly waitMs: number;
  readonly maxWaiting: number | undefined;
  readonly tokens: number;
  readonly weight: number;
  readonly subscribed: boolean;
  readonly sharedTokens: boolean;
  /** Under a grant that is not the last one. */
  readonly isOld: boolean;
  /** By how much the clock goes on first. */
  readonly passMs: number;
  readonly notAfterMs: number;
  readonly holdMs: number;
  readonly guardMs: number;
}

export function scriptStep(clients: number): fc.Arbitrary<ScriptStep> {
  const weighted = (all: readonly (readonly [number, ScriptStep['do']])[]) =>
    fc.oneof(...all.map(([weight, name]) => ({ weight, arbitrary: fc.constant(name) })));
  return fc.record({
    do: weighted([
      [10, 'acquire'],
      [4, 'renew'],
      [1, 'renewAll'],
      [6, 'release'],
      [1, 'force'],
      [1, 'inspect'],
      [3, 'subscribe'],
      [1, 'listen'],
      [1, 'data'],
      [1, 'memory'],
      [1, 'rights'],
    ]),
    client: fc.nat({ max: clients - 1 }),
    owner: fc.nat({ max: 1 }),
    key: fc.constantFrom('k', 'k', 'k', 'k', ...KEYS),
    kind: fc.constantFrom('lock', 'lock', 'lock', ...KINDS),
    leaseMs: fc.constantFrom(...LEASES),
    waitMs: fc.constantFrom(0, 3000, 3000),
    maxWaiting: fc.constantFrom(undefined, undefined, undefined, 0, 1),
    tokens: fc.constantFrom(1, 1, 5, 1000),
    weight: fc.constantFrom(1, 1, 2),
    subscribed: fc.boolean(),
    sharedTokens: fc.constantFrom(false, false, false, true),
    isOld: fc.constantFrom(false, false, false, true),
    passMs: fc.constantFrom(0, 0, 0, 1, 60, 250, 1000, 3500, 31_000, -3000),
    notAfterMs: fc.constantFrom(500, 500, 500, -1),
    holdMs: fc.constantFrom(0, 0, 1500),
    guardMs: fc.constantFrom(0, 0, 0, 0, 5000),
  });
}

const PUBLISH = { cluster: false, publish: 'PUBLISH' };
const clientId = (client: number) => `1234567${client}-89ab-8cde-9f01-23456789abcd`;
const last = new Map<string, readonly [first: string, last: string]>();

/** What a step is taken on: a real server and the model, or a model alone. */
export interface Stepped {
  micros: number;
  /** The model follows the test's clock, and a real server gets it from the script's arguments. */
  readonly pinned: boolean;
  pass(micros: number): void;
  /** @returns what was written to the client */
  send(client: number, words: readonly string[]): Promise<string>;
  setOutOfMemory(isOutOfMemory: boolean): Promise<void>;
  deny(command: string): Promise<void>;
  allowAll(): Promise<void>;
}

export async function takeStep(servers: Stepped, step: ScriptStep, i: number): Promise<void> {
  if (i === 0) await prepare(servers);
  servers.pass(step.passMs * 1000 + 137);
  const { client, key, kind, leaseMs } = step;
  const now = Math.floor(servers.micros / 1000);
  const owner = `${clientId(client)}:${step.owner}`;
  const keys = redisKeys(key, kind, step.sharedTokens);
  const notAfter = String(now + step.notAfterMs);
  const claim = { kind, ...(kind === 'permits' && { weight: step.weight, permits: 3 }) };
  const guard = step.guardMs > 0 ? ['nest_lock_guard:'] : [];
  const [first, end] = step.isOld ? ['12', '12'] : (last.get(`${owner} ${key}`) ?? ['7', '7']);
  const run = (name: keyof typeof SOURCES, names: readonly string[], args: readonly string[]) =>
    servers.send(client, [
      'EVALSHA',
      shaOf(sourceOf(name, servers)),
      String(names.length),
      ...names,
      ...args,
      ...timeArguments(servers.micros),
    ]);

  switch (step.do) {
    case 'acquire': {
      const tokens = step.isOld ? step.tokens + 50 : step.tokens;
      const isPlain = kind === 'lock' && tokens === 1 && !step.sharedTokens;
      const options = JSON.stringify({
        ...claim,
        tokens,
        wait: step.waitMs,
        ticket: step.isOld ? String(now * 1000 - 5) : '0',
        initial_lease: 1000,
        subscribed: step.subscribed,
        nonce: 'abc',
        ...(step.maxWaiting !== undefined && { max_waiting: step.maxWaiting }),
        ...PUBLISH,
      });
      const args = [
        owner,
        String(leaseMs),
        notAfter,
        step.isOld ? String(now * 1000 + 77) : '0',
        `${isPlain ? 'ps' : '--'}${options}`,
      ];
      const reply = await run(
        'acquire',
        [...keys, ...guard],
        guard.length > 0 ? [...args, String(step.guardMs)] : args,
      );
      const [, token = '', block = token] = /(\d{16})\r\n(?::(\d{16})\r\n)?/.exec(reply) ?? [];
      if (token !== '') last.set(`${owner} ${key}`, [token, block]);
      return;
    }
    case 'renew':
      if (kind === 'lock') {
        await run('renewPlain', keys, ['PUBLISH', notAfter, owner, String(leaseMs), first, end]);
        return;
      }
      await run('renew', keys, [
        owner,
        String(leaseMs),
        first,
        end,
        notAfter,
        JSON.stringify({ ...claim, min_token: 0, ...PUBLISH }),
      ]);
      return;
    case 'renewAll': {
      const others = KEYS.flatMap((name) => redisKeys(name, 'lock'));
      const each = KEYS.flatMap((name) => [
        owner,
        String(leaseMs),
        ...(last.get(`${owner} ${name}`) ?? ['7', '7']),
      ]);
      await run('renewPlain', others, ['PUBLISH', notAfter, ...each]);
      return;
    }
    case 'release': {
      const hold = step.holdMs > 0 ? { hold: step.holdMs } : {};
      const used = step.tokens > 1 ? { used: first, reserved: end } : {};
      const isPlain = kind === 'lock' && step.holdMs === 0 && step.tokens === 1 && step.subscribed;
      const options = JSON.stringify({ ...claim, ...used, ...hold, ...PUBLISH });
      const flags = isPlain ? `${step.sharedTokens ? '-' : 'p'}s` : '--';
      await run('release', keys, [owner, '0', flags + options]);
      return;
    }
    case 'force':
      await run('force', keys, ['0', '0', 'PUBLISH', '', '']);
      return;
    case 'inspect':
      await run('inspect', keys, []);
      return;
    case 'subscribe':
      await servers.send(client, [
        step.isOld ? 'UNSUBSCRIBE' : 'SUBSCRIBE',
        notificationChannel(clientId(step.owner)),
      ]);
      return;
    case 'listen':
      await servers.send(client, [step.isOld ? 'UNSUBSCRIBE' : 'SUBSCRIBE', keys[4]]);
      return;
    case 'memory':
      return servers.setOutOfMemory(step.isOld);
    case 'rights':
      return step.isOld ? servers.deny(DENIED[step.tokens % DENIED.length] as string) : servers.allowAll();
    case 'data':
      await servers.send(client, DATA[step.tokens % DATA.length]?.(key, keys) ?? []);
  }
}

const DENIED = ['hset', 'publish', 'zadd', 'pubsub|numsub'];

/** What an application, an operator or a crash may do to the keys of a lock. */
const DATA: readonly ((key: string, keys: readonly string[]) => readonly string[])[] = [
  (_, [, , , token = '']) => ['DEL', token],
  (key) => ['SET', key, 'text of the application'],
  (key) => ['HSET', key, 'stock', '5'],
  (key) => ['DEL', key],
];

const SOURCES = {
  acquire: lua.acquire,
  renew: lua.renew,
  renewPlain: lua.renewPlain,
  release: lua.release,
  force: lua.force,
  inspect: lua.inspect,
};

function sourceOf(name: keyof typeof SOURCES, { pinned }: Stepped): string {
  return pinned ? withPinnedTime(SOURCES[name]) : SOURCES[name];
}

function shaOf(source: string): string {
  return createHash('sha1').update(source).digest('hex');
}

/** Loads the scripts. The clients speak RESP3, which allows scripts on a connection that has subscribed. */
async function prepare(servers: Stepped): Promise<void> {
  last.clear();
  servers.micros = 1_700_000_000_000_000;
  for (const name of Object.keys(SOURCES) as (keyof typeof SOURCES)[])
    await servers.send(0, ['SCRIPT', 'LOAD', sourceOf(name, servers)]);
  await servers.send(0, ['HELLO', '3']);
  await servers.send(1, ['HELLO', '3']);
}
