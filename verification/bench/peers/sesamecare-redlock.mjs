import { Redlock } from '@sesamecare-oss/redlock';
import { Redis } from 'ioredis';

/** The lease of its README, in ms. */
const LEASE_MS = 5000;

/** @type {import('../contestants/contestant.d.mts').OpenContestant} */
export async function open(url) {
  const client = new Redis(url);
  await client.ping();
  const redlock = new Redlock([client]);
  redlock.on('error', () => {});
  return { run: (key, work) => redlock.using([key], LEASE_MS, work) };
}
