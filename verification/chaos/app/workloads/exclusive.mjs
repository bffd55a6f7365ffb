import { lengthOf } from './length.mjs';

/** One at a time, some with a lease of their own, some in strict order. */
export function exclusive(random, { key, shortMs }) {
  const isFixed = random.chance(0.1);
  const options = { ...(isFixed && { leaseMs: 1000 }), ...(random.chance(0.05) && { fair: true }) };
  return { keys: [key], mode: 'exclusive', options, lengthMs: lengthOf(random, shortMs, !isFixed) };
}
