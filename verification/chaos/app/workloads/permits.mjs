import { lengthOf } from './length.mjs';

const PERMITS = 3;

/** Three at once; some take two of the three permits. */
export function permits(random, { key, shortMs }) {
  const weight = random.chance(0.2) ? 2 : 1;
  const options = { permits: PERMITS, weight };
  return { keys: [key], mode: 'permits', options, lengthMs: lengthOf(random, shortMs, true) };
}
