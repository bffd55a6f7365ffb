import type { Kernel } from './kernel.js';
import { SimProcess } from './process.js';

type Task = (...args: unknown[]) => void;

/** A timer of a simulated process, as `clearTimeout` takes it. */
interface SimTimer {
  readonly cancel: () => void;
  ref(): SimTimer;
  unref(): SimTimer;
}

const real = { setTimeout, clearTimeout, setImmediate, random: Math.random, now: Date.now };
let active: Kernel | undefined;
let isInstalled = false;

/**
 * Code that is not the library's own, such as ioredis, takes time and chance from globals. While a callback of a simulated
 * process runs, these are the process's; at any other time they are the machine's.
 */
export function routeGlobals(kernel: Kernel): void {
  active = kernel;
  if (isInstalled) return;
  isInstalled = true;
  const current = (): SimProcess | undefined => {
    const runner = active?.current;
    return runner instanceof SimProcess ? runner : undefined;
  };
  const timer = (cancel: () => void): SimTimer => {
    const it: SimTimer = { cancel, ref: () => it, unref: () => it };
    return it;
  };
  Object.assign(globalThis, {
    setTimeout: Object.assign((task: Task, ms = 0, ...args: unknown[]) => {
      const process = current();
      if (!process) return real.setTimeout(task, ms, ...args);
      return timer(process.setTimeout(ms, () => task(...args)));
    }, real.setTimeout),
    setImmediate: Object.assign((task: Task, ...args: unknown[]) => {
      const process = current();
      if (!process) return real.setImmediate(task, ...args);
      return timer(process.setImmediate(() => task(...args)));
    }, real.setImmediate),
    clearTimeout: (it: unknown) => {
      if (isSimTimer(it)) it.cancel();
      else real.clearTimeout(it as NodeJS.Timeout);
    },
  });
  Math.random = () => (current() ? (active as Kernel).dice.random() : real.random());
  Date.now = () => current()?.timeOfDay ?? real.now();
}

function isSimTimer(it: unknown): it is SimTimer {
  return typeof it === 'object' && it !== null && 'cancel' in it;
}
