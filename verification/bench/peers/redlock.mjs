import { Redis } from 'ioredis';
import Redlock from 'redlock';

/** The lease of its README, in ms. */
const LEASE_MS = 5000;

/** @type {import('../contestants/contestant.d.mts').OpenContestant} */
export const open = (url) => openRedlock(url);

/** @param {string} url @param {Partial<import('redlock').Settings>} [settings] default: its own */
export async function openRedlock(url, settings) {
  const client = new Redis(url);
  await client.ping();
  const redlock = new Redlock([client], settings);
  redlock.on('error', () => {});
  return { run: (key, work) => redlock.using([key], LEASE_MS, work) };
}
