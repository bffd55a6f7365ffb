import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { spawnGuarded } from '#processes';
import { acquire, KEY } from '../../checks/acquire.mjs';

const HOLDER = fileURLToPath(new URL('../holder.mjs', import.meta.url));

/** A holder that works for long, dies, or loses the key. */
export const HOLDERS = {
  long: {
    says: 'Work that takes longer than its lease is still alone, with no line of code for that',
    async run({ open, leaseMs, hasKeys }) {
      const [one, other] = [await open(), await open()];
      let begun = 0;
      const held = await acquire({ run: (key, work) => one.run(key, () => (begun++, work())) });
      if (hasKeys) other.run(KEY, async () => begun++).catch(() => {});
      await sleep(2 * leaseMs);
      const alone = begun === 1;
      await held.release();
      return alone ? 'yes' : 'no';
    },
  },
  killed: {
    says: 'The process of the holder is killed: the next one begins',
    async run(system) {
      if (!system.hasKeys) return '–';
      const ms = await (await killHolder(system)).nextAfterMs;
      if (ms < 1000) return 'at once';
      return ms < 2 * system.leaseMs ? 'when its lease ends' : 'later';
    },
  },
  redone: {
    says: 'The process of the holder is killed: its work is run again',
    async run(system) {
      const { redone } = await killHolder(system);
      return Promise.race([redone.then(() => 'yes'), sleep(4 * system.leaseMs, 'no')]);
    },
  },
  told: {
    says: 'The holder is told within one lease that it has lost the key',
    async run({ open, leaseMs }) {
      const client = await open();
      const lost = new AbortController();
      await acquire(client, { onLost: () => lost.abort() });
      await client.takeAway();
      await sleep(leaseMs, undefined, { signal: lost.signal }).catch(() => {});
      return lost.signal.aborted ? 'yes' : 'no';
    },
  },
  token: {
    says: 'A number that grows with each holder, for a resource to refuse the writes of an earlier one',
    async run({ open }) {
      const clients = [await open(), await open()];
      const tokens = [];
      for (const client of [...clients, ...clients]) {
        await client.run(KEY, async ({ token }) => tokens.push(token));
      }
      const grow = tokens.every(
        (token, i) => typeof token === 'number' && (i === 0 || token > tokens[i - 1]),
      );
      return grow ? 'yes' : 'no';
    },
  },
};

/** Kills a process that has the key. @returns the next caller's time of beginning, and what becomes of the work */
async function killHolder({ name, url, open }) {
  const { child, exited } = spawnGuarded(process.execPath, [HOLDER, name, url], { stdio: 'pipe' });
  await new Promise((resolve) => child.stdout.once('data', resolve));
  child.kill('SIGKILL');
  await exited;
  const killedAt = performance.now();
  let redo;
  const redone = new Promise((resolve) => (redo = resolve));
  const client = await open(redo);
  const nextAfterMs = client.run(KEY, async () => performance.now() - killedAt);
  return { nextAfterMs, redone };
}
