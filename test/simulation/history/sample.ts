import type { Lock } from '../../../libs/distributed-lock/src/lock/lock.js';
import type { SimProcess } from '../kernel/process.js';
import type { Sample } from './history.js';

/** Must run in a callback of the process. */
export function sampleOf(
  { machine, trueNow, monotonic }: SimProcess,
  { validForMs }: Pick<Lock, 'validForMs'>,
): Sample {
  return { at: trueNow, validForMs, until: machine.whenMonotonic(monotonic + validForMs) };
}
