import type { Dice } from '../kernel/dice.js';
import { fields, nameOr, number, oneOf, optional, text, whole, type Check } from './checks.js';
import type { ProcessPlan } from './plan.js';

/** A call of `once.run`. */
export interface OncePlan {
  readonly process: number;
  readonly service: number;
  readonly key: string;
  readonly atMs: number;
  readonly workMs: number;
  readonly waitMs: number | 'Infinity';
  readonly leaseMs?: number;
  /** Its work throws, so that the next call works. */
  readonly fails?: true;
}

export const ONCE: Check = fields<OncePlan>({
  process: whole(0),
  service: whole(0),
  key: text,
  atMs: number(0),
  workMs: number(0),
  waitMs: nameOr('Infinity', number(0)),
  leaseMs: optional(number(1)),
  fails: optional(oneOf(true)),
});

interface Frame {
  readonly processes: readonly ProcessPlan[];
  readonly watchdogTimeoutMs: number;
  /** Calls begin within this time. */
  readonly lengthMs: number;
}

/** In some plans processes run one or two keys once, most of them at about the same time. */
export function drawOnces(
  dice: Dice,
  { processes, watchdogTimeoutMs, lengthMs }: Frame,
): readonly OncePlan[] | undefined {
  if (!dice.happens(0.15)) return undefined;
  const keys = Array.from({ length: dice.int(1, 2) }, (_, i) => ({
    key: `paid ${i}`,
    at: dice.int(0, lengthMs),
  }));
  return Array.from({ length: dice.scale(2, 10) }, (): OncePlan => {
    const { key, at } = dice.pick(keys);
    const process = dice.int(0, processes.length - 1);
    return {
      process,
      service: dice.int(0, (processes[process] as ProcessPlan).services - 1),
      key,
      atMs: at + dice.scale(1, 3000),
      workMs: dice.scale(1, 1.5 * watchdogTimeoutMs),
      waitMs: dice.pick(['Infinity', 'Infinity', 0, dice.scale(1, 5000)] as const),
      ...(dice.happens(0.3) && { leaseMs: dice.scale(100, watchdogTimeoutMs) }),
      ...(dice.happens(0.15) && { fails: true as const }),
    };
  });
}
