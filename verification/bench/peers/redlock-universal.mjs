import { Redis } from 'ioredis';
import { createLock, IoredisAdapter } from 'redlock-universal';

/** The lease of its README, in ms. */
const LEASE_MS = 30_000;

/** @type {import('../contestants/contestant.d.mts').OpenContestant} */
export async function open(url) {
  const client = new Redis(url);
  await client.ping();
  const adapter = new IoredisAdapter(client);
  return { run: (key, work) => createLock({ adapter, key, ttl: LEASE_MS }).using(async () => work()) };
}
