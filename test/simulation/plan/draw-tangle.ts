import type { Frame } from './draw-calls.js';
import type { CallPlan, Step } from './plan.js';

/**
 * Two or three flows of one process of which each has a key and asks for that of the next one, so that the last one would wait for
 * itself. One that has given its key back by then, or another process that comes between, leaves no circle.
 */
export function drawTangle({ dice, processes, lengthMs }: Frame): readonly CallPlan[] {
  const process = dice.int(0, processes.length - 1);
  const atMs = dice.int(0, lengthMs);
  // A circle across processes is not seen. There only the end of a wait ends it.
  const isOfOneProcess = dice.happens(0.8);
  const keys = Array.from({ length: dice.int(2, 3) }, (_, i) => `tangle${i}`);
  const flow = (i: number): CallPlan => {
    const next = keys[(i + 1) % keys.length] as string;
    const asks: Step = {
      do: 'nested',
      call: {
        service: 0,
        how: dice.pick(['withLock', 'acquire', 'handler']),
        keys: [next],
        options: { waitMs: isOfOneProcess && dice.happens(0.5) ? 'Infinity' : dice.scale(100, 3000) },
        work: [],
      },
    };
    return {
      process: isOfOneProcess ? process : dice.int(0, processes.length - 1),
      atMs: atMs + dice.scale(1, 200),
      service: 0,
      how: dice.pick(['withLock', 'acquire', 'handler']),
      keys: [keys[i] as string],
      options: { waitMs: 3000 },
      work: [
        { do: 'sleep', ms: dice.scale(1, 500) },
        asks,
        ...(dice.happens(0.5) ? [{ do: 'sleep', ms: dice.scale(1, 500) } as const] : []),
      ],
    };
  };
  return keys.map((_, i) => flow(i));
}
