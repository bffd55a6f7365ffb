import { drawLocked } from './draw-locked.js';
import type { Frame } from './draw-calls.js';
import type { Asking, CallPlan, ClaimPlan, Step } from './plan.js';

const [FOLDER, FILES, POOLS] = ['folder0', ['file0', 'file1', 'file2'], ['pool0', 'pool1']] as const;
const HOWS = ['withLock', 'withLock', 'acquire', 'tryAcquire', 'unshared', 'handler', 'method'] as const;

/**
 * Calls that hold a folder as readers and one of its files alone, or the folder alone, or permits of two pools, in lists of any order
 * whose keys have claims of their own. Those of nested calls may be more than the flow has.
 */
export function drawClaims(frame: Frame): readonly CallPlan[] {
  const { dice, processes, lengthMs } = frame;
  const atMs = dice.int(0, lengthMs);
  return Array.from({ length: dice.int(3, 8) }, () => ({
    process: dice.int(0, processes.length - 1),
    atMs: atMs + dice.scale(1, 500),
    ...drawAsking(frame, 0),
  }));
}

function drawAsking(frame: Frame, depth: number): Asking {
  const { dice, watchdogTimeoutMs } = frame;
  const claims = drawKeys(frame);
  const keys = Object.keys(claims);
  const how = dice.pick(HOWS);
  const isLocked = how === 'handler' || how === 'method';
  // A cycle of waits across processes is not found: a finite wait ends it.
  const waits = depth > 0 ? [0, 3000] : [0, dice.scale(100, 5000), 'Infinity' as const];
  return {
    service: 0,
    how,
    keys: dice.happens(0.5) ? keys : keys.toReversed(),
    claims,
    // The options are for keys without a claim, and none is: what they say must not matter.
    options: {
      waitMs: dice.pick(waits),
      ...dice.pick([{}, { mode: 'shared' as const }, { permits: 7, weight: 3 }]),
    },
    ...(isLocked && { locked: { ...drawLocked(dice, how), keys: dice.pick(['function', 'templates']) } }),
    work: Array.from({ length: dice.int(0, 3) }, (): Step => {
      if (depth < 2 && dice.happens(0.3))
        return { do: dice.pick(['nested', 'beside']), call: drawAsking(frame, depth + 1) };
      return { do: 'sleep', ms: dice.scale(1, 1.2 * watchdogTimeoutMs) };
    }),
  };
}

function drawKeys({ dice, canCount }: Frame): Readonly<Record<string, ClaimPlan>> {
  if (canCount && dice.happens(0.3)) return drawPools(dice);
  const file = dice.pick(FILES);
  const writes = { [FOLDER]: { mode: 'exclusive' } } as const;
  const changes = { [FOLDER]: { mode: 'shared' }, [file]: { mode: 'exclusive' } } as const;
  const reads = { [FOLDER]: { mode: 'shared' }, [file]: { mode: 'shared' } } as const;
  const claims = dice.pick([writes, changes, changes, reads]);
  return canCount && dice.happens(0.3) ? { ...claims, ...drawPools(dice) } : claims;
}

function drawPools(dice: Frame['dice']): Readonly<Record<string, ClaimPlan>> {
  const [small, large] = POOLS;
  return { [small]: { permits: 1, weight: 1 }, [large]: { permits: 3, weight: dice.int(1, 2) } };
}
