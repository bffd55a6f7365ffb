import type { Dice } from '../kernel/dice.js';
import { drawPasses } from './draw-passes.js';
import { drawLocked } from './draw-locked.js';
import { drawClaim, type KeyPlan } from './keys.js';
import { drawTakeovers } from './draw-takeovers.js';
import { drawClaims } from './draw-claims.js';
import { drawTangle } from './draw-tangle.js';
import type { Asking, CallOptionsPlan, CallPlan, LockedPlan, ProcessPlan, Step, StreamPlan } from './plan.js';

/** What the works of a plan have in common: a mixture, works longer than leases, or fixed leases that are changed. */
export type Theme = 'mixed' | 'long' | 'changing' | 'beyond the session';

const HOWS = [
  'withLock',
  'withLock',
  'withLock',
  'acquire',
  'tryAcquire',
  'unshared',
  'stream',
  'handler',
  'method',
] as const;

export interface Frame {
  readonly dice: Dice;
  readonly keys: readonly KeyPlan[];
  readonly processes: readonly ProcessPlan[];
  readonly watchdogTimeoutMs: number;
  /** One way, in ms. */
  readonly latencyMs: number;
  readonly theme: Theme;
  /** Its store has permits. */
  readonly canCount: boolean;
  /** Calls begin within this time. */
  readonly lengthMs: number;
  readonly most: number;
}

export function drawCalls(frame: Frame): readonly CallPlan[] {
  const { dice, processes, lengthMs, most } = frame;
  // Bursts, so that callers meet.
  const moments = Array.from({ length: dice.int(1, 6) }, () => dice.int(0, lengthMs));
  const calls: CallPlan[] = [];
  for (let left = dice.scale(3, most); left > 0; left--) {
    const before = calls.at(-1);
    if (before && dice.happens(0.3)) {
      calls.push(another(frame, before));
      continue;
    }
    const process = dice.int(0, processes.length - 1);
    const atMs = dice.happens(0.7) ? dice.pick(moments) + dice.scale(1, 300) : dice.int(0, lengthMs);
    calls.push({ process, atMs, ...drawAsking(frame, process, 0) });
  }
  // A fork, so that the other calls of a seed are the same with them and without.
  const claims = dice.fork('claims');
  const crossed = dice.happens(0.3) ? crossing(frame) : [];
  const taking = drawTakeovers({ ...frame, dice: dice.fork('takeovers') }, calls);
  return [
    ...drawPasses(dice.fork('passes'), taking, processes.length),
    ...crossed,
    ...(dice.happens(0.15) ? drawTangle(frame) : []),
    ...(claims.happens(0.15) ? drawClaims({ ...frame, dice: claims }) : []),
  ];
}

/** Two processes ask for the same keys in opposite orders, however long they wait, while one of the keys is in use. */
function crossing({ dice, keys, processes, lengthMs }: Frame): readonly CallPlan[] {
  const { family } = dice.pick(keys);
  const own = keys.filter((it) => it.family === family).map(({ key }) => key);
  if (own.length < 2 || family === 'permits' || family === 'both kinds') return [];
  const atMs = dice.int(0, lengthMs);
  const options: CallOptionsPlan = { waitMs: 'Infinity', ...(family === 'readers' && { mode: 'exclusive' }) };
  const call = (process: number, afterMs: number, order: readonly string[], workMs: number): CallPlan => ({
    process,
    atMs: atMs + afterMs,
    service: 0,
    how: 'withLock',
    keys: order,
    options,
    work: [{ do: 'sleep', ms: workMs }],
  });
  const first = dice.int(0, processes.length - 1);
  const second = (first + 1) % processes.length;
  return [
    call(dice.pick([first, second]), 0, [dice.pick(own)], dice.scale(50, 1000)),
    call(first, dice.scale(10, 300), own, dice.scale(1, 200)),
    call(second, dice.scale(10, 300), own.toReversed(), dice.scale(1, 200)),
  ];
}

/** A call of the same local queue, in which the lock is handed on within the process. */
function another(frame: Frame, before: CallPlan): CallPlan {
  const { dice, watchdogTimeoutMs } = frame;
  const {
    process,
    atMs,
    options: { holdAtLeastMs: _, ...options },
  } = before;
  const minimum = drawMinimumHold(dice, options.leaseMs ?? watchdogTimeoutMs);
  const asked = { ...options, ...(!isDropped(before.locked) && minimum) };
  return {
    ...before,
    atMs: atMs + dice.scale(1, 100),
    options: asked,
    work: drawWork(frame, process, asked, 0),
  };
}

function drawAsking(frame: Frame, process: number, depth: number): Asking {
  const { dice, keys, processes } = frame;
  const key = dice.pick(keys);
  const others = keys.filter(({ family }) => family === key.family);
  const isSeveral = others.length > 1 && dice.happens(0.2);
  const how = dice.pick(HOWS);
  const locked = how === 'handler' || how === 'method' ? drawLocked(dice, how) : undefined;
  const drawn = drawOptions(frame, drawClaim(dice, key));
  const options = isDropped(locked) ? withoutMinimumHold(drawn) : drawn;
  const several = others.map((it) => it.key);
  return {
    service: dice.int(0, (processes[process] as ProcessPlan).services - 1),
    how,
    // In any order: they are acquired in one.
    keys: isSeveral ? (dice.happens(0.5) ? several : several.toReversed()) : [key.key],
    // A cycle of waits across processes is not found: a finite wait ends it.
    options: depth > 0 && options.waitMs === 'Infinity' ? { ...options, waitMs: 3000 } : options,
    ...(dice.happens(0.1) && { abortAfterMs: dice.scale(1, 3000) }),
    ...(how === 'stream' && { stream: drawStream(dice) }),
    ...(locked && { locked }),
    work: drawWork(frame, process, options, depth),
    ...(dice.happens(0.1) && { isUsedAfterwards: true as const }),
    ...(dice.happens(0.08) && { isUnasked: true as const }),
    ...(mayListen(how) && dice.happens(0.08) && { onAbort: dice.pick(AT_LOSS) }),
  };
}

/** Its lock may be given back before the method has run, and then nobody notes a minimum hold. */
function isDropped(locked: LockedPlan | undefined): boolean {
  return locked?.reader === 'drops';
}

function withoutMinimumHold(drawn: CallOptionsPlan): CallOptionsPlan {
  const { holdAtLeastMs: _, ...options } = drawn;
  return options;
}

const AT_LOSS = ['blocks', 'calls', 'releases'] as const;

/** The lock of a method or a stream is given back by the library alone. */
function mayListen(how: Asking['how']): boolean {
  return how === 'withLock' || how === 'acquire' || how === 'unshared';
}

function drawStream(dice: Dice): StreamPlan {
  return {
    kind: dice.pick(['generator', 'web stream', 'readable']),
    reader: dice.pick(['reads', 'reads', 'leaves', 'drops']),
  };
}

function drawOptions(
  { dice, watchdogTimeoutMs, latencyMs, theme }: Frame,
  claim: CallOptionsPlan,
): CallOptionsPlan {
  const waitMs = dice.pick([undefined, 0, dice.scale(1, 500), dice.scale(500, 10_000), 'Infinity'] as const);
  const tooShort = Math.max(10, Math.floor(latencyMs * 1.5));
  const leases = [undefined, undefined, dice.scale(100, watchdogTimeoutMs), dice.scale(500, 5000)];
  const themed = {
    mixed: dice.pick(leases),
    long: undefined,
    changing: dice.scale(500, 5000),
    'beyond the session': dice.int(watchdogTimeoutMs, 4 * watchdogTimeoutMs),
  }[theme];
  const leaseMs = dice.happens(0.03) ? tooShort : themed;
  return {
    ...claim,
    ...(waitMs !== undefined && { waitMs }),
    ...(dice.happens(0.2) && { maxWaiting: dice.int(0, 4) }),
    ...(leaseMs !== undefined && { leaseMs }),
    ...drawMinimumHold(dice, leaseMs ?? watchdogTimeoutMs),
    ...(dice.happens(0.1) && { onLost: 'ignore' as const }),
  };
}

function drawMinimumHold(dice: Dice, mostMs: number): Pick<CallOptionsPlan, 'holdAtLeastMs'> {
  return dice.happens(0.1) ? { holdAtLeastMs: dice.int(10, Math.max(10, Math.min(mostMs, 3000))) } : {};
}

function drawWork(frame: Frame, process: number, options: CallOptionsPlan, depth: number): readonly Step[] {
  const { dice, watchdogTimeoutMs, theme } = frame;
  const { leaseMs, mode } = options;
  if (theme === 'long' && dice.happens(0.5)) {
    return [{ do: 'sleep', ms: dice.int(watchdogTimeoutMs / 2, 3 * watchdogTimeoutMs) }];
  }
  if (theme === 'beyond the session' && leaseMs && dice.happens(0.5)) {
    return [{ do: 'sleep', ms: dice.int(leaseMs / 4, leaseMs) }];
  }
  if (theme === 'changing' && leaseMs && dice.happens(0.5)) {
    return Array.from({ length: dice.int(1, 3) }, (): readonly Step[] => [
      { do: 'extend', ms: dice.int(50, 2 * leaseMs) },
      { do: 'sleep', ms: dice.int(10, leaseMs) },
    ]).flat();
  }
  return Array.from({ length: dice.int(0, 3) }, (): Step => {
    const kind = dice.random();
    if (kind < 0.1) return { do: 'block', ms: dice.scale(1, 1.5 * watchdogTimeoutMs) };
    if (kind < 0.3 && leaseMs) return { do: 'extend', ms: dice.scale(50, 2 * leaseMs) };
    if (kind < 0.14 && !leaseMs) return { do: 'keep for', ms: dice.scale(50, 2 * watchdogTimeoutMs) };
    if (kind < 0.4 && mode === 'exclusive') return { do: 'downgrade' };
    if (kind < 0.43) return { do: 'throw' };
    if (kind < 0.5) return { do: dice.pick(['inspect', 'inspect', 'list', 'held'] as const) };
    if (kind < 0.6 && depth < 2) {
      const when = kind < 0.57 ? 'nested' : 'beside';
      return { do: when, call: drawAsking(frame, process, depth + 1) };
    }
    const lasting = dice.pick(['sleep', 'sleep', 'sleep', 'until lost', 'until contended'] as const);
    return { do: lasting, ms: dice.scale(1, leaseMs ? 1.2 * leaseMs : 1.5 * watchdogTimeoutMs) };
  });
}
