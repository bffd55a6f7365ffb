import { createClient } from 'redis';
import { lock } from 'simple-redis-mutex';

/** @type {import('../contestants/contestant.d.mts').OpenContestant} */
export async function open(url) {
  const client = createClient({ url });
  await client.connect();
  return {
    async run(key, work) {
      const release = await lock(client, key);
      try {
        return await work();
      } finally {
        await release();
      }
    },
  };
}
