import { setTimeout as pause } from 'node:timers/promises';

/**
 * Reads a server's statistics once no more commands arrive. Some libraries do not wait for the reply to a release.
 *
 * @param {() => Promise<import('../stores/store.d.mts').Reading>} read
 */
export async function readWhenQuiet(read) {
  let before = await read();
  for (let look = 0; look < 50; look++) {
    await pause(10);
    const now = await read();
    if (total(now.calls) === total(before.calls)) return before;
    before = now;
  }
  return before;
}

/** @param {Map<string, number>} calls */
const total = (calls) => [...calls.values()].reduce((sum, count) => sum + count, 0);
