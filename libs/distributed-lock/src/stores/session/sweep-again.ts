import { inBackground } from '../../async-context/in-background.js';
import { randomMs, type Chance } from '../../time/chance.js';
import type { Clock } from '../../time/clock.js';

/** Each process sweeps at its own random times, in ms. */
export const SWEEP_MS = { least: 5 * 60_000, spread: 5 * 60_000 };

/** Sweeps again and again. The next sweep does what one that fails could not. @returns stops that */
export function sweepAgain(clock: Clock, chance: Chance, sweep: () => Promise<void>): () => void {
  let cancel = (): void => undefined;
  const wait = (): void => {
    cancel = clock.after(randomMs(chance, SWEEP_MS), () => {
      wait();
      inBackground(sweep(), () => undefined);
    });
  };
  wait();
  return () => cancel();
}
