/**
 * Repeats a run until so many locks have been taken in all and `leastMs` are over; for `longestMs` at most.
 *
 * @param {() => Promise<{ acquired: number }[]>} run answers by process @param {{ locks: number, leastMs?: number, longestMs: number }} enough
 */
export async function runUntil(run, { locks, leastMs = 0, longestMs }) {
  let taken = 0;
  const startedAt = performance.now();
  const spentMs = () => performance.now() - startedAt;
  while (spentMs() < leastMs || (taken < locks && spentMs() < longestMs)) {
    for (const { acquired } of await run()) taken += acquired;
  }
}
