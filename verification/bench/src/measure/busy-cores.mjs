import { cpus } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';

/** More than that of the machine's cores in use by others, and the figures are theirs, too. */
export const MAX_BUSY_CORES = 0.5;

/** The exit code of a run that found the machine busy. */
export const BUSY = 3;

const WATCH_MS = 2000;
const AGAIN_MS = 3000;
/** How long a run waits for others to end. */
const PATIENCE_MS = 5 * 60_000;

/**
 * How many cores all programs together use, while this one only waits: 1.5 of 2, as the kernel counts it. The load average would also
 * count threads of the kernel that wait for a device and use no CPU.
 *
 * @returns {Promise<number>}
 */
export async function busyCores(watchMs = WATCH_MS) {
  const before = cpus();
  await pause(watchMs);
  const used = cpus().map(({ times }, i) => {
    const since = (name) => times[name] - before[i].times[name];
    const busy = since('user') + since('nice') + since('sys') + since('irq');
    return busy / (busy + since('idle') || 1);
  });
  return used.reduce((sum, share) => sum + share, 0);
}

/**
 * Resolves with the cores in use once the machine is quiet.
 *
 * @param {{ measure?: () => Promise<number>, patienceMs?: number, againMs?: number }} [how]
 * @throws BusyMachineError when it has not become so in time
 */
export async function untilQuiet({ measure = busyCores, patienceMs = PATIENCE_MS, againMs = AGAIN_MS } = {}) {
  const endsAt = performance.now() + patienceMs;
  for (;;) {
    const used = await measure();
    if (used <= MAX_BUSY_CORES) return used;
    if (performance.now() >= endsAt) throw new BusyMachineError(used);
    await pause(againMs);
  }
}

/** Nothing was written, as the figures would be those of other programs, too. */
export class BusyMachineError extends Error {
  /** @param {number} used */
  constructor(used) {
    super(
      `Other programs use ${used.toFixed(2)} of the ${cpus().length} cores, more than ${MAX_BUSY_CORES}: no table is written. ` +
        'End them and run this again, or let it write nevertheless: --busy.',
    );
    this.name = 'BusyMachineError';
  }
}
