import { setTimeout as sleep } from 'node:timers/promises';
import { acquire, KEY } from '../../checks/acquire.mjs';

const WORK_MS = 200;
const ROUNDS = 10;
const WAITERS = 10;

/** Several callers at once. */
export const CALLERS = {
  alone: {
    says: 'One at a time for each key, while other keys go on',
    async run({ open }) {
      const { perKey, together } = await mostInside(await openTwo(open), { callers: 12 });
      return perKey === 1 && together > 1 ? 'yes' : 'no';
    },
  },
  order: {
    says: 'Callers of a key get their turns in the order in which they asked',
    async run({ open, hasKeys }) {
      if (!hasKeys) return '–';
      const clients = await openTwo(open);
      const held = await acquire(clients[0]);
      const served = [];
      const ask = (i) => clients[i % 2].run(KEY, async () => served.push(i));
      const asked = [];
      for (let i = 0; i < WAITERS; i++, await sleep(100)) asked.push(ask(i));
      await held.release();
      asked.push(ask(WAITERS));
      await Promise.all(asked);
      return served.join() === asked.map((_, i) => i).join() ? 'yes' : 'no';
    },
  },
  limit: {
    says: 'At most three at a time for each key',
    async run({ open, hasLimits }) {
      if (!hasLimits) return 'no';
      const clients = await openTwo(open);
      const found = [];
      for (let i = 0; i < 4; i++) found.push(await mostInside(clients, { callers: 20, limit: 3 }));
      if (found.some(({ perKey }) => perKey > 3)) return 'not always';
      return found.some(({ together }) => together > 3) ? 'yes' : 'no';
    },
  },
  once: {
    says: 'Run once: a call with the same key gets the result of the first one',
    async run({ open }) {
      const [one, other] = await openTwo(open);
      if (!one.runOnce) return 'no';
      let runs = 0;
      const work = async () => {
        await sleep(WORK_MS);
        return ++runs;
      };
      const results = await Promise.all([one.runOnce('order-1', work), other.runOnce('order-1', work)]);
      results.push(await other.runOnce('order-1', work));
      return results.join() === '1,1,1' ? 'yes' : 'no';
    },
  },
  soon: {
    says: 'The next one begins so soon after the one before it (median)',
    async run({ open, hasKeys }) {
      if (!hasKeys) return '–';
      const clients = await openTwo(open);
      const gaps = [];
      for (let i = 0; i < ROUNDS; i++) {
        let endedAt;
        const first = await acquire(clients[0]);
        const next = clients[1].run(KEY, async () => gaps.push(performance.now() - endedAt));
        // Ends at another time between two polls in each round.
        await sleep(WORK_MS + 17 * i);
        endedAt = performance.now();
        await Promise.all([first.release(), next]);
      }
      const median = gaps.toSorted((a, b) => a - b)[ROUNDS / 2];
      return median <= 10 ? 'up to 10 ms' : median <= 100 ? 'up to 100 ms' : 'up to 1 s';
    },
  },
  connections: {
    says: 'Twenty callers that wait need no connections of their own',
    async run({ open, hasKeys, countConnections }) {
      if (!hasKeys) return '–';
      const client = await open();
      await acquire(client);
      await sleep(WORK_MS);
      const before = await countConnections();
      for (let i = 0; i < 20; i++) client.run(KEY, async () => {}).catch(() => {});
      await sleep(5 * WORK_MS);
      return (await countConnections()) - before >= 20 ? 'no' : 'yes';
    },
  },
};

/** As two processes have it. */
async function openTwo(open) {
  return [await open(), await open()];
}

/** How many works of one key, and of both keys together, are inside at a time at most. */
async function mostInside(clients, { callers, limit }) {
  const inside = { a: 0, b: 0 };
  const most = { perKey: 0, together: 0 };
  const runAs = (i) => {
    const key = i % 4 < 2 ? 'a' : 'b';
    const work = async () => {
      inside[key]++;
      most.perKey = Math.max(most.perKey, inside[key]);
      most.together = Math.max(most.together, inside.a + inside.b);
      await sleep(WORK_MS);
      inside[key]--;
    };
    return clients[i % 2].run(key, work, { limit });
  };
  await Promise.all(Array.from({ length: callers }, (_, i) => runAs(i)));
  return most;
}
