// The floor with the server's own command for a delete that checks the owner, which no script runs.
import { Redis } from 'ioredis';
import { bareRedisLock } from './floor.mjs';

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
  return bareRedisLock(client, (key, owner) => {
    const [command, ...args] = deleteOwn(key, owner);
    return client.call(command, ...args);
  });
}
