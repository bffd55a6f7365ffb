import { setTimeout as sleep } from 'node:timers/promises';
import { refuseOneRenewal } from '../server.mjs';
import { acquire, KEY } from './acquire.mjs';

const LEASE_MS = 3000;

/** Long work, and locks that are gone before their work has ended. */
export const LEASES = {
  renews: {
    says: 'Work that takes longer than its lease is still alone',
    async run({ open }) {
      const [holder, other] = [await open(LEASE_MS), await open(LEASE_MS)];
      const held = await acquire(holder);
      await sleep(1.5 * LEASE_MS);
      const free = await other.isFree(KEY);
      await held.release();
      return free ? 'no' : 'yes';
    },
  },
  failedRenewal: {
    says: 'A renewal that Redis refuses once is repeated',
    async run({ open, redis }) {
      const [holder, other] = [await open(LEASE_MS), await open(LEASE_MS)];
      const held = await acquire(holder);
      if (!(await refuseOneRenewal(redis, LEASE_MS))) return '–';
      await sleep(1.5 * LEASE_MS);
      const free = await other.isFree(KEY);
      await held.release();
      return free ? 'no' : 'yes';
    },
    ifItDies: 'ends the process',
  },
  told: {
    says: 'The holder is told within one lease that its lock is gone',
    async run({ open, redis }) {
      const holder = await open(LEASE_MS);
      const aborted = new AbortController();
      const held = await acquire(holder, { onLost: () => aborted.abort() });
      await redis.flushdb();
      await sleep(LEASE_MS, undefined, { signal: aborted.signal }).catch(() => {});
      void held.release();
      return aborted.signal.aborted ? 'yes' : 'no';
    },
  },
  resultOfLost: {
    says: 'Work ends well, and another has its lock by then: the caller is told',
    async run({ open, redis }) {
      const [holder, other] = [await open(LEASE_MS), await open(LEASE_MS)];
      const work = async () => {
        await redis.flushdb();
        await acquire(other);
        await sleep(LEASE_MS / 2);
      };
      return holder.run(KEY, work).then(
        () => 'no',
        () => 'yes',
      );
    },
  },
  errorOfWork: {
    says: "Work fails, and its lock is gone: the caller gets the work's own error",
    async run({ open, redis }) {
      const holder = await open(LEASE_MS);
      const error = new Error('of the work');
      const work = async () => {
        await redis.flushdb();
        throw error;
      };
      return holder.run(KEY, work).catch((it) => (it === error ? 'yes' : 'no'));
    },
  },
  staleRelease: {
    says: "A stale holder's release leaves the next holder's lock alone",
    async run({ open, redis }) {
      const [stale, next, third] = [await open(LEASE_MS), await open(LEASE_MS), await open(LEASE_MS)];
      const held = await acquire(stale);
      await redis.flushdb();
      await acquire(next);
      await held.release();
      return (await third.isFree(KEY)) ? 'no' : 'yes';
    },
  },
  staleReleaseInMemory: {
    says: 'The same with its store in memory',
    async run({ openMemory }) {
      if (!openMemory) return '–';
      const library = await openMemory(200);
      const stale = await library.acquire(KEY);
      await sleep(250);
      await library.acquire(KEY);
      await Promise.resolve(stale.release()).catch(() => {});
      return (await library.isFree(KEY)) ? 'no' : 'yes';
    },
  },
};
