import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { memoryStore } from 'nestjs-distributed-lock';
import { RELEASE_RETRY_MS } from '../../libs/distributed-lock/src/connection/reliable-release.js';
import { KEEP_ALIVE_MS } from '../../libs/distributed-lock/src/connection/timing.js';
import { UNCONFIRMED_MS } from '../../libs/distributed-lock/src/document/document.js';
import { MAX_NAME_BYTES } from '../../libs/distributed-lock/src/etcd/backend.js';
import { KEEP_ALIVES } from '../../libs/distributed-lock/src/etcd/sessions.js';
import { ETCD_DEFAULTS } from '../../libs/distributed-lock/src/etcd/store.js';
import { RESERVED_TOKENS } from '../../libs/distributed-lock/src/lock/core/acquire-loop.js';
import { HAND_OFF_BUDGET } from '../../libs/distributed-lock/src/lock/core/contention.js';
import { MAX_SILENCE_MS, RENEWALS_PER_LEASE } from '../../libs/distributed-lock/src/lock/core/lease.js';
import { ROUND_MS } from '../../libs/distributed-lock/src/lock/core/watchdog.js';
import {
  CALL_RULES,
  GRACE_MS,
  MAX_LEASE_MS,
  resolveLockOptions,
} from '../../libs/distributed-lock/src/lock/request/lock-options.js';
import { leaseMargin, RECHECK_MS, SILENT_WAITER_MS } from '../../libs/distributed-lock/src/port/timing.js';
import {
  MIN_INITIAL_LEASE_MS,
  UNSUBSCRIBED_RECHECK_MS,
} from '../../libs/distributed-lock/src/redis/commands/acquire.js';
import { MAX_IN_FLIGHT } from '../../libs/distributed-lock/src/redis/connection.js';
import { IDLE_MS } from '../../libs/distributed-lock/src/redis/idle-probe.js';
import { REDIS_DEFAULTS } from '../../libs/distributed-lock/src/redis/options.js';
import { LAST_LEASES_MS } from '../../libs/distributed-lock/src/document/leases.js';
import { SWEPT_AFTER_MS } from '../../libs/distributed-lock/src/session/register.js';
import { SESSION_KNOWN_MS } from '../../libs/distributed-lock/src/session/remembered-documents.js';
import { SQL_COMMAND_TIMEOUT_MS } from '../../libs/distributed-lock/src/sql/store.js';
import { BELIEVED_MS } from '../../libs/distributed-lock/src/zookeeper/backend.js';
import { KEEP_ALIVES_PER_SESSION } from '../../libs/distributed-lock/src/zookeeper/client/session.js';
import { MAX_BYTES } from '../../libs/distributed-lock/src/zookeeper/znodes.js';
import { ZOOKEEPER_DEFAULTS } from '../../libs/distributed-lock/src/zookeeper/store.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const textOf = (file: string) => readFileSync(`${root}/${file}`, 'utf8').replaceAll(/\s+/g, ' ');

const seconds = (ms: number) => `${ms / 1000} s`;
const thousands = (ms: number) => String(ms).replace(/(?=(\d{3})+$)\B/g, ' ');
const luaNumber = (file: string, name: string) =>
  Number(new RegExp(`local ${name} = (\\d+)`).exec(textOf(`${LUA}/${file}`))?.[1]);

const LUA = 'libs/distributed-lock/src/redis/scripts/lua/lib';
const GUARANTEES = 'docs/guarantees.md';
const ARCHITECTURE = 'docs/architecture.md';
const RECIPES = 'docs/recipes/setup.md';
const RULES = 'docs/decisions/0003-queue-and-hand-off.md';
const STORES = 'docs/stores.md';
const DOCUMENTS = 'docs/document-stores.md';
const SESSIONS = 'docs/decisions/0016-liveness-by-session.md';

const defaults = resolveLockOptions({ store: memoryStore() });
const watchdog = seconds(defaults.watchdogTimeoutMs);
const grace = seconds(defaults.shutdownGraceMs);
const wait = seconds(defaults.waitMs);
const renewal = seconds(defaults.watchdogTimeoutMs / RENEWALS_PER_LEASE);
const part = ['', '', 'half', 'third', 'fourth'][RENEWALS_PER_LEASE] as string;
const command = REDIS_DEFAULTS.commandTimeoutMs;
const recheck = seconds(RECHECK_MS);
const initial = seconds(MIN_INITIAL_LEASE_MS);
const { sharedMs, minMs, maxMs, minCallers } = HAND_OFF_BUDGET;
const budget = [`${sharedMs} ms`, `${minMs} ms`, `${minCallers} callers`, `${maxMs} ms`];
const driftPercent = Math.round((leaseMargin(2000) - leaseMargin(1000)) / 10);
const timerMs = leaseMargin(1000) - 10 * driftPercent;
const foreignWaitMs = luaNumber('foreign-clients.lua', 'FOREIGN_WAIT_MS');
const aSecond = ['', '', 'two', 'three', 'four', 'five', 'six'][1000 / foreignWaitMs];
const inWords = (n: number) =>
  new Map([
    [1, 'one'],
    [2, 'two'],
    [5, 'five'],
    [6, 'six'],
    [10, 'ten'],
    [12, 'twelve'],
  ]).get(n) as string;
const aFew = (ms: number) => `${inWords(ms / 1000)} second${ms === 1000 ? '' : 's'}`;
const minutes = (ms: number) => `${inWords(ms / 60_000)} minutes`;
const keptAlive = [`${inWords(KEEP_ALIVES)} times`, `${inWords(KEEP_ALIVES_PER_SESSION)} times`];
const openMs = luaNumber('foreign-clients.lua', 'FOREIGN_TURN_MS');

/** For each figure of the code the words that stand together in one paragraph, point or row of a page that repeats it. */
const FIGURES: Record<string, readonly (readonly [page: string, ...words: string[]])[]> = {
  watchdogTimeoutMs: [
    ['README.md', '`watchdogTimeoutMs`', watchdog],
    ['docs/zh/README.md', `\`watchdogTimeoutMs\`（默认 ${defaults.watchdogTimeoutMs / 1000} 秒）`],
    [GUARANTEES, '[liveness]', watchdog],
    [RECIPES, '| `watchdogTimeoutMs`', thousands(defaults.watchdogTimeoutMs)],
    ['docs/redisson.md', '`watchdogTimeoutMs`', watchdog],
    ['docs/quorum.md', '`watchdogTimeoutMs`', watchdog],
    [
      'docs/production.md',
      'pause',
      seconds(defaults.watchdogTimeoutMs - defaults.watchdogTimeoutMs / RENEWALS_PER_LEASE),
    ],
  ],
  waitMs: [
    ['README.md', '`waitMs`', wait],
    ['docs/zh/README.md', `\`waitMs\`（默认 ${defaults.waitMs / 1000} 秒）`],
    [RECIPES, '| `waitMs`', thousands(defaults.waitMs)],
    ['docs/prometheus/alerts.yml', 'waitMs', `[5m]))) > ${defaults.waitMs / 2000} `],
  ],
  shutdownGraceMs: [
    [GUARANTEES, '`shutdownGraceMs`', grace],
    [RECIPES, '| `shutdownGraceMs`', thousands(defaults.shutdownGraceMs)],
  ],
  'the longest lease': [
    ['docs/production.md', `${MAX_LEASE_MS / 86_400_000} days`, thousands(MAX_LEASE_MS)],
    ['docs/compare.md', `${MAX_LEASE_MS / 86_400_000} days`],
  ],
  commandTimeoutMs: [
    [RECIPES, '| `commandTimeoutMs`', String(command)],
    ['docs/production.md', 'region', `${command} ms`],
  ],
  replicaTimeoutMs: [
    [GUARANTEES, 'round trip', `${REDIS_DEFAULTS.replicaTimeoutMs} ms`],
    [RECIPES, '| `replicaTimeoutMs`', String(REDIS_DEFAULTS.replicaTimeoutMs)],
  ],
  'renewals at a part of the lease': [
    [GUARANTEES, 'within', renewal],
    [GUARANTEES, `a ${part} of`],
    [ARCHITECTURE, `a ${part} of`],
    ['docs/production.md', 'renews', `every ${part} of`],
    ['docs/decisions/0004-fencing-tokens.md', `a ${part} of`],
  ],
  'the margin of a lease': [
    [GUARANTEES, `${timerMs} ms`, `${driftPercent} %`, seconds(leaseMargin(1e9))],
    [
      'docs/decisions/0002-what-a-holder-may-believe.md',
      `${timerMs} ms`,
      `${driftPercent} %`,
      seconds(leaseMargin(1e9)),
    ],
  ],
  'the hand-off budget': [
    [GUARANTEES, ...budget],
    [ARCHITECTURE, ...budget],
    ['docs/decisions/0012-where-the-time-goes.md', ...budget],
  ],
  'the recheck interval': [[GUARANTEES, 'recheck', recheck]],
  'a waiter that is silent': [[RULES, 'recheck', seconds(SILENT_WAITER_MS)]],
  'the recheck interval without a subscription': [
    ['docs/troubleshooting.md', `${UNSUBSCRIBED_RECHECK_MS} ms`, 'late'],
  ],
  'the initial lease': [
    [GUARANTEES, 'initial lease', initial],
    [ARCHITECTURE, 'initial lease', initial],
  ],
  'the longest time without a reply during local hand-offs': [
    [RULES, 'renew', seconds(MAX_SILENCE_MS)],
    [ARCHITECTURE, 'renew', seconds(MAX_SILENCE_MS)],
  ],
  'the check of idle connections': [
    [GUARANTEES, 'replaces', seconds(KEEP_ALIVE_MS)],
    ['docs/decisions/0005-own-connections.md', '`PING`', seconds(KEEP_ALIVE_MS)],
  ],
  'the rounds of the watchdog': [[ARCHITECTURE, 'watchdog', `${ROUND_MS.min} ms`, seconds(ROUND_MS.max)]],
  'the repetition of a release': [
    [
      ARCHITECTURE,
      'release',
      `${RELEASE_RETRY_MS.least} to ${RELEASE_RETRY_MS.least + RELEASE_RETRY_MS.spread} ms`,
    ],
  ],
  'the reserved tokens': [
    [
      'docs/decisions/0004-fencing-tokens.md',
      'tokens',
      `${RESERVED_TOKENS.handOffs}`,
      `${RESERVED_TOKENS.readers}`,
    ],
  ],
  'the commands in flight': [['docs/decisions/0005-own-connections.md', 'in flight', `${MAX_IN_FLIGHT}`]],
  'an idle connection': [
    [GUARANTEES, `${IDLE_MS} ms`],
    ['docs/decisions/0005-own-connections.md', 'idle', `${IDLE_MS} ms`],
  ],
  'the keep-alives of a session': [
    [DOCUMENTS, ...keptAlive],
    [SESSIONS, ...keptAlive],
  ],
  'what is known about a session': [[DOCUMENTS, '"alive"', aFew(SESSION_KNOWN_MS).replace('one', 'a')]],
  'a grant that nobody has confirmed': [
    [DOCUMENTS, 'unconfirmed', aFew(UNCONFIRMED_MS)],
    [SESSIONS, 'unconfirmed', aFew(UNCONFIRMED_MS)],
    [GUARANTEES, `${inWords(UNCONFIRMED_MS / 1000)} to ${aFew(UNCONFIRMED_MS + RECHECK_MS)}`],
  ],
  'the last leases of a client that closes': [[GUARANTEES, 'last lease', aFew(LAST_LEASES_MS)]],
  'the defaults of etcdStore and zookeeperStore': [
    [STORES, '| `root`', ETCD_DEFAULTS.root, ZOOKEEPER_DEFAULTS.root],
    [
      STORES,
      '| `commandTimeoutMs`',
      `${ETCD_DEFAULTS.commandTimeoutMs} | ${ZOOKEEPER_DEFAULTS.commandTimeoutMs} |`,
    ],
    [STORES, `readwrite --prefix=true ${ETCD_DEFAULTS.root}`],
    [DOCUMENTS, ETCD_DEFAULTS.root, ZOOKEEPER_DEFAULTS.root],
  ],
  'the longest names in etcd and ZooKeeper': [
    [STORES, `${thousands(MAX_NAME_BYTES)} bytes`],
    [STORES, `${thousands(MAX_BYTES)} bytes`],
  ],
  'the versions that are believed in ZooKeeper': [
    ['docs/decisions/0018-zookeeper-client.md', minutes(BELIEVED_MS)],
    ['docs/decisions/0018-zookeeper-client.md', 'empty', minutes(SWEPT_AFTER_MS)],
    [DOCUMENTS, 'empty', minutes(SWEPT_AFTER_MS)],
  ],
  'the turn of foreign clients': [
    [RULES, `${foreignWaitMs} ms`, `${openMs} ms`],
    [GUARANTEES, `${aSecond} times a second`],
    ['docs/redisson.md', `${aSecond} times a second`],
  ],
};

const passagesOf = (file: string) =>
  readFileSync(`${root}/${file}`, 'utf8')
    .split(/\n\n|\n(?=[|-] |\d+\. )/)
    .map((passage) => passage.replaceAll(/\s+/g, ' '));

describe('a figure of the code', () => {
  it.each(Object.entries(FIGURES))('is the same on each page that repeats it: %s', (_figure, pages) => {
    const missing = pages.filter(
      ([page, ...words]) => !passagesOf(page).some((passage) => words.every((it) => passage.includes(it))),
    );
    expect(missing).toEqual([]);
  });
});

describe('the figures of the benchmark in the README', () => {
  const benchmarks = textOf('docs/benchmarks.md');

  it.each(['README.md', 'docs/zh/README.md'])('are those of its page, in %s', (page) => {
    const [, rows = ''] =
      /^\|.* Redis.*\|\n\| -+ .*\n((?:\|.*\n)+)/m.exec(readFileSync(`${root}/${page}`, 'utf8')) ?? [];
    const figures = rows
      .split('\n')
      .filter((row) => /\d (?:ms|locks|毫秒|锁)/.test(row))
      .flatMap(
        (row) =>
          row
            .split('|')
            .slice(2)
            .join('|')
            .match(/\d[\d .]*\d/g) ?? [],
      );
    expect(figures.length).toBeGreaterThan(10);
    expect(figures.filter((figure) => !benchmarks.includes(figure))).toEqual([]);
  });
});

describe('the section on times', () => {
  const page = readFileSync(`${root}/docs/production.md`, 'utf8');
  const [, section = ''] = /^(## Times$[^]*?)^## /m.exec(page) ?? [];
  const rows = new Map(
    [...section.matchAll(/^\| `(\w+)` +\| (.+?) +\|/gm)].map(([, name = '', value = '']) => [name, value]),
  );

  it('has the defaults of the code', () => {
    expect(SQL_COMMAND_TIMEOUT_MS).toBe(REDIS_DEFAULTS.commandTimeoutMs);
    expect(Object.fromEntries(rows)).toEqual({
      waitMs: thousands(defaults.waitMs),
      watchdogTimeoutMs: thousands(defaults.watchdogTimeoutMs),
      leaseMs: 'none',
      holdAtLeastMs: '0',
      graceMs: thousands(GRACE_MS),
      shutdownGraceMs: thousands(defaults.shutdownGraceMs),
      commandTimeoutMs: `${REDIS_DEFAULTS.commandTimeoutMs}, etcd and ZooKeeper ${thousands(ZOOKEEPER_DEFAULTS.commandTimeoutMs)}`,
      replicaTimeoutMs: String(REDIS_DEFAULTS.replicaTimeoutMs),
      restartGuardMs: '0',
    });
  });

  it('has every time of the module and of a call', () => {
    const times = [...Object.keys(defaults), ...Object.keys(CALL_RULES.acquire)].filter((name) =>
      name.endsWith('Ms'),
    );
    expect(times.filter((name) => !rows.has(name))).toEqual([]);
  });

  it('has a picture of the same defaults; if not: npm run generate', () => {
    const program =
      "import('./tools/pictures/times.mjs').then(({ drawTimes }) => process.stdout.write(drawTimes(JSON.parse(process.argv[1]))))";
    const times = { ...defaults, commandTimeoutMs: REDIS_DEFAULTS.commandTimeoutMs };
    const drawn = spawnSync(process.execPath, ['-e', program, JSON.stringify(times)], {
      cwd: root,
      encoding: 'utf8',
    });
    expect(drawn.stderr).toBe('');
    expect(readFileSync(`${root}/docs/images/times.svg`, 'utf8')).toBe(drawn.stdout);
  });
});
