import { setImmediate } from 'node:timers';

// Taken before a back end replaces it.
const realImmediate = setImmediate;

/** Runs all promise reactions and `nextTick` callbacks that are ready, to the end. */
type TickCallback = () => void;

const { _tickCallback: tickCallback } = process as unknown as { _tickCallback?: TickCallback };

/**
 * Node's own drain, which Node 20 to 24 have: a whole history is then one synchronous run. Call it from a timer or an immediate, never
 * from a promise reaction, in which it would do nothing. `unhandledRejection` is emitted by the same drain.
 */
export const drain: TickCallback | undefined = tickCallback?.bind(process);

/** Where Node has no such function: a turn of the real event loop, which takes five times as long. */
export async function drainSlowly(): Promise<void> {
  await new Promise((resolve) => realImmediate(resolve));
}

/** Calls `work` from an immediate, outside of every promise reaction. */
export function outsideOfPromises(work: () => void): Promise<void> {
  return new Promise((resolve, reject) => {
    realImmediate(() => {
      try {
        work();
        resolve();
      } catch (error) {
        reject(error as Error);
      }
    });
  });
}
