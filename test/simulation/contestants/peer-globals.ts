import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
import { routeGlobals } from '../kernel/globals.js';
import type { Kernel } from '../kernel/kernel.js';

interface Interval {
  /** As the timers of `routeGlobals` have it. */
  cancel(): void;
  ref(): Interval;
  unref(): Interval;
}

let isInstalled = false;

/**
 * What other libraries use beside the globals that `routeGlobals` replaces, built from these. Ids that they draw from `node:crypto` stay
 * random: nothing that happens depends on them.
 */
export function routePeerGlobals(kernel: Kernel): void {
  routeGlobals(kernel);
  if (isInstalled) return;
  isInstalled = true;
  Object.assign(globalThis, {
    setInterval: (task: (...args: unknown[]) => void, ms: number, ...args: unknown[]): Interval => {
      let timer: ReturnType<typeof setTimeout>;
      const start = (): void => {
        timer = setTimeout(() => {
          start();
          task(...args);
        }, ms);
      };
      start();
      const interval: Interval = {
        cancel: () => clearTimeout(timer),
        ref: () => interval,
        unref: () => interval,
      };
      return interval;
    },
    clearInterval: (interval: Interval | undefined) => interval?.cancel(),
  });
  const sleep = (ms?: number, value?: unknown) =>
    new Promise((resolve) => setTimeout(() => resolve(value), ms));
  Object.assign(timers, { setTimeout: sleep });
  syncBuiltinESMExports();
}
