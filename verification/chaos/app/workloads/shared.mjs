import { lengthOf } from './length.mjs';

/** Three readers for one writer. */
export function shared(random, { key, shortMs }) {
  const mode = random.chance(0.75) ? 'shared' : 'exclusive';
  return { keys: [key], mode, options: { mode }, lengthMs: lengthOf(random, shortMs, true) };
}
