import { readFileSync } from 'node:fs';
import { systemClock } from '../../../libs/distributed-lock/dist/shared/core.names.cjs';

/**
 * A monotonic clock that has stood still for as many ms as `file` says, as Linux' does while a machine is suspended. The
 * time of day has gone on.
 *
 * @param {string} file @returns {import('nestjs-distributed-lock').Clock}
 */
export function clockThatSleeps(file) {
  return {
    ...systemClock,
    now: () => systemClock.now() - sleptMs(file),
    timeOfDay: () => Date.now(),
  };
}

function sleptMs(file) {
  try {
    return Number(readFileSync(file, 'utf8'));
  } catch {
    return 0;
  }
}
