import { now } from '../now.mjs';

const EVERY_MS = 25;
const NOTEWORTHY_MS = 100;

/**
 * Records when this process did not run for a while, whatever the reason: what should have happened then could not.
 *
 * @param {(type: string, details?: object) => void} record @returns {() => void} ends it
 */
export function watchPauses(record) {
  let last = now();
  const timer = setInterval(() => {
    const late = now() - last - EVERY_MS;
    if (late > NOTEWORTHY_MS) record('paused', { from: last, ms: late });
    last = now();
  }, EVERY_MS);
  return () => clearInterval(timer);
}
