// The floor with the server's own command for a delete that checks the owner, which no script runs.
import { Redis } from 'ioredis';

const LEASE_MS = 30_000;

/** The command's arguments on a server that knows it. Valkey 9 has one and Redis 8.4 the other. */
const DELETES = {
  delifeq: (key, owner) => ['DELIFEQ', key, owner],
  delex: (key, owner) => ['DELEX', key, 'IFEQ', owner],
};

/** @type {import('./contestant.d.mts').OpenContestant} */
export async function open(url) {
  const client = new Redis(url);
  const known = await client.call('COMMAND', 'INFO', ...Object.keys(DELETES));
  const deleteOwn = Object.values(DELETES).find((_, i) => known[i]);
  if (!deleteOwn) {
    client.disconnect();
    throw new Error('this server has no such command: it takes Redis 8.4 or Valkey 9');
  }
  let calls = 0;
  return {
    async run(key, work) {
      const owner = `${process.pid}:${++calls}`;
      if ((await client.set(key, owner, 'PX', LEASE_MS, 'NX')) === null) throw new Error(`${key} is taken`);
      try {
        return await work();
      } finally {
        const [command, ...args] = deleteOwn(key, owner);
        await client.call(command, ...args);
      }
    },
  };
}
