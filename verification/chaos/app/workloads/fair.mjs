import { lengthOf } from './length.mjs';

/** Strictly in order of asking, across processes. */
export function fair(random, { key, shortMs }) {
  return {
    keys: [key],
    mode: 'exclusive',
    options: { fair: true },
    lengthMs: lengthOf(random, shortMs, true),
  };
}
