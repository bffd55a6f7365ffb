import { setTimeout as sleep } from 'node:timers/promises';
import { commandsWhile } from '../server.mjs';
import { acquire, KEY } from './acquire.mjs';

const LEASE_MS = 30_000;
const WAITERS = 10;

/** Several callers at once. */
export const WAITING = {
  reentrant: {
    says: 'Re-entrant: a call inside acquires the same key again',
    async run({ open }) {
      const library = await open(LEASE_MS);
      const inner = (thread) => library.run(KEY, async () => 'yes', { thread });
      return library.run(KEY, (thread) => Promise.race([inner(thread).catch(() => 'no'), sleep(1000, 'no')]));
    },
  },
  commandsOfWaiter: {
    says: 'Commands of one waiter in its first second',
    async run({ open, redis }) {
      const [holder, waiter] = [await open(LEASE_MS), await open(LEASE_MS)];
      await acquire(holder);
      const commands = await commandsWhile(redis, async () => {
        waiter.run(KEY, async () => {}).catch(() => {});
        await sleep(1000);
      });
      if (commands <= 3) return 'at most 3';
      return commands <= 10 ? '4 to 10' : 'over 10';
    },
  },
  order: {
    says: `Fair: ${WAITERS} waiters of two processes are served in order, before a caller that asks at the release`,
    async run({ open }) {
      const clients = [await open(LEASE_MS), await open(LEASE_MS)];
      const held = await acquire(clients[0], { fair: true });
      const served = [];
      const ask = (i) =>
        clients[i % 2].run(KEY, async () => void served.push(i), { fair: true }).catch(() => {});
      const asked = [];
      for (let i = 0; i < WAITERS; i++, await sleep(100)) asked.push(ask(i));
      await held.release();
      asked.push(ask(WAITERS));
      await Promise.race([Promise.all(asked), sleep(8000)]);
      return served.join() === asked.map((_, i) => i).join() ? 'yes' : 'no';
    },
  },
  severalKeys: {
    says: 'Several keys: two calls ask for them in opposite order, and none waits for ever',
    async run({ open }) {
      const [one, two] = [await open(LEASE_MS), await open(LEASE_MS)];
      if (!one.runAll) return '–';
      const calls = Array.from({ length: 10 }, (_, i) =>
        i % 2 ? one.runAll(['a', 'b'], () => sleep(1)) : two.runAll(['b', 'a'], () => sleep(1)),
      );
      const all = await Promise.race([Promise.allSettled(calls), sleep(8000, undefined)]);
      return all?.every(({ status }) => status === 'fulfilled') ? 'yes' : 'no';
    },
  },
  permits: {
    says: 'Semaphore: of ten callers at most three are inside',
    async run({ open }) {
      const library = await open(LEASE_MS);
      if (!library.runWithPermit) return '–';
      let inside = 0;
      let most = 0;
      const work = async () => {
        most = Math.max(most, ++inside);
        await sleep(20);
        inside--;
      };
      await Promise.all(Array.from({ length: 10 }, () => library.runWithPermit(KEY, 3, work)));
      return most === 3 ? 'yes' : 'no';
    },
  },
};
