import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { until } from '#until';
import { GOAL_MS, LOOK_MS, SLACK_MS } from '../constants.mjs';
import { missingProcess } from './missing-process.mjs';

const RECOVER_MS = LOOK_MS + SLACK_MS;

/**
 * A state in which Redis answers with an error, for longer or shorter than a lease.
 *
 * @param {string} name @param {string} says @param {(admin: import('ioredis').Redis) => Promise<unknown>} enter
 * @param {(admin: import('ioredis').Redis) => Promise<unknown>} leave
 */
function refusal(name, says, enter, leave) {
  return {
    name,
    says,
    stopsStore: true,
    goalMs: GOAL_MS,
    recoverMs: RECOVER_MS,
    async inject({ store: { admin }, random }) {
      await enter(admin, random);
      try {
        await pause(random.between(300, 2500));
      } finally {
        await leave(admin);
      }
    },
  };
}

const RIGHTS = ['-evalsha', '-eval', '-publish', '-subscribe', '-@all'];

/** Redis refuses writes when the last snapshot could not be written: here because its name is taken by a folder. */
async function failSnapshot(admin) {
  const folder = String(Object.values(await admin.config('GET', 'dir')).at(-1));
  await mkdir(join(folder, 'taken'), { recursive: true });
  await admin.config('SET', 'dbfilename', 'taken');
  await admin.config('SET', 'save', '3600 1');
  await admin.call('BGSAVE').catch(() => undefined);
  await until(async () => (await admin.info('persistence')).includes('rdb_last_bgsave_status:err'));
}

export const REFUSALS = [
  refusal(
    'oom',
    'OOM: Redis has no memory left',
    (admin) => admin.config('SET', 'maxmemory', '1'),
    (admin) => admin.config('SET', 'maxmemory', '0'),
  ),
  refusal(
    'readonly',
    'READONLY: Redis is made the replica of nobody',
    (admin) => admin.replicaof('127.0.0.1', 1),
    (admin) => admin.call('REPLICAOF', 'NO', 'ONE'),
  ),
  refusal(
    'noreplicas',
    'NOREPLICAS: too few replicas are there',
    (admin) => admin.config('SET', 'min-replicas-to-write', '1'),
    (admin) => admin.config('SET', 'min-replicas-to-write', '0'),
  ),
  {
    ...refusal('misconf', 'MISCONF: Redis cannot write its snapshot', failSnapshot, (admin) =>
      admin.config('SET', 'save', ''),
    ),
    missing: missingProcess,
  },
  refusal(
    'noperm',
    'NOPERM: the user loses a right: to run scripts, to publish, to subscribe, or all',
    (admin, random) => admin.acl('SETUSER', 'service', random.pick(RIGHTS)),
    (admin) => admin.acl('SETUSER', 'service', '+@all'),
  ),
];
