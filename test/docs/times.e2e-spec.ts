import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { memoryStore } from 'nestjs-distributed-lock';
import { RENEWALS_PER_LEASE } from '../../libs/distributed-lock/src/lock/lease/lease.js';
import {
  CALL_NAMES,
  GRACE_MS,
  resolveLockOptions,
} from '../../libs/distributed-lock/src/lock/request/lock-options.js';
import { REDIS_DEFAULTS } from '../../libs/distributed-lock/src/stores/redis/redis.options.js';
import { ZOOKEEPER_COMMAND_TIMEOUT_MS } from '../../libs/distributed-lock/src/stores/zookeeper/zookeeper.store.js';
import { SQL_COMMAND_TIMEOUT_MS } from '../../libs/distributed-lock/src/stores/sql/sql-options.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const [, PAGE = ''] = /^(## Times$[^]*?)^## /m.exec(readFileSync(`${ROOT}/docs/production.md`, 'utf8')) ?? [];
const defaults = resolveLockOptions({ store: memoryStore() });
const thousands = (ms: number) => String(ms).replace(/(?=(\d{3})+$)\B/g, ' ');

describe('the section on times', () => {
  const rows = new Map(
    [...PAGE.matchAll(/^\| `(\w+)` +\| (.+?) +\|/gm)].map(([, name = '', value = '']) => [name, value]),
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
      commandTimeoutMs: `${REDIS_DEFAULTS.commandTimeoutMs}, etcd and ZooKeeper ${thousands(ZOOKEEPER_COMMAND_TIMEOUT_MS)}`,
      replicaTimeoutMs: String(REDIS_DEFAULTS.replicaTimeoutMs),
      restartGuardMs: '0',
    });
  });

  it('has every time of the module and of a call', () => {
    const times = [...Object.keys(defaults), ...Object.keys(CALL_NAMES)].filter((name) =>
      name.endsWith('Ms'),
    );
    expect(times.filter((name) => !rows.has(name))).toEqual([]);
  });

  it('says how often a lease is renewed', () => {
    const part = ['', '', 'half', 'third', 'fourth'][RENEWALS_PER_LEASE] as string;
    expect(PAGE.replaceAll(/\s+/g, ' ')).toContain(`more renewals, one every ${part} of it`);
  });

  it('has a picture of the same defaults; if not: npm run docs:pictures', () => {
    const program =
      "import('./scripts/pictures/times.mjs').then(({ drawTimes }) => process.stdout.write(drawTimes(JSON.parse(process.argv[1]))))";
    const times = { ...defaults, commandTimeoutMs: REDIS_DEFAULTS.commandTimeoutMs };
    const drawn = spawnSync(process.execPath, ['-e', program, JSON.stringify(times)], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    expect(drawn.stderr).toBe('');
    expect(readFileSync(`${ROOT}/docs/images/times.svg`, 'utf8')).toBe(drawn.stdout);
  });
});
