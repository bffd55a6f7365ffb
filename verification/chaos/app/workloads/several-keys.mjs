import { lengthOf } from './length.mjs';

/** Half of the calls take two keys at once, in any order. */
export function severalKeys(random, { key, keys, shortMs }) {
  const other = random.pick(keys);
  const both = random.chance(0.5) && other !== key ? [key, other] : [key];
  return { keys: both, mode: 'exclusive', options: {}, lengthMs: lengthOf(random, shortMs, true) };
}
