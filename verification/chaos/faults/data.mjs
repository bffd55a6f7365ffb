import { setTimeout as pause } from 'node:timers/promises';
import { LOOK_MS, SLACK_MS } from '../constants.mjs';
import { partsOf } from '../world/key-names.mjs';

const RECOVER_MS = LOOK_MS + SLACK_MS;

export const DATA_FAULTS = [
  {
    name: 'key-deleted',
    says: 'DEL of a lock, or of one of its other keys, or of all of them',
    losesData: true,
    recoverMs: RECOVER_MS,
    async inject({ store, random, keys }) {
      const parts = partsOf(random.pick(keys));
      await store.admin.del(...random.pick([[parts[0]], [random.pick(parts)], parts]));
    },
  },
  {
    name: 'evicted',
    says: 'maxmemory with allkeys-random: Redis throws keys away',
    losesData: true,
    stopsStore: true,
    recoverMs: RECOVER_MS,
    async inject({ store: { admin }, random }) {
      await admin.config('SET', 'maxmemory-policy', 'allkeys-random', 'maxmemory', '1');
      await pause(random.between(20, 500));
      await admin.config('SET', 'maxmemory-policy', 'noeviction', 'maxmemory', '0');
    },
  },
  {
    name: 'wrong-type',
    says: 'a lock is overwritten by a string, and that is deleted later',
    losesData: true,
    stopsStore: true,
    recoverMs: RECOVER_MS,
    async inject({ store: { admin }, random, keys }) {
      const name = random.pick(partsOf(random.pick(keys)));
      await admin.set(name, 'not a lock');
      await pause(random.between(100, 2000));
      await admin.del(name);
    },
  },
  {
    name: 'flushall',
    says: 'FLUSHALL',
    losesData: true,
    recoverMs: RECOVER_MS,
    inject: ({ store }) => store.admin.flushall(),
  },
];
