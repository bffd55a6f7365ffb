/** Node refuses longer delays and would fire at once. */
const MAX_MS = 2 ** 31 - 1;

/** The delay that `setTimeout` takes for a time that may be over already, or too far away. From Node 24 on it warns of a negative one. */
export function timerDelay(ms: number): number {
  return Math.min(Math.max(0, ms), MAX_MS);
}
