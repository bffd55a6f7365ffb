import type { StoreOptions } from '../backends/backend.js';
import { count } from '../summary/counts.js';
import type { Dice } from '../kernel/dice.js';
import type { CallPlan, FaultPlan } from './plan.js';

/** A few calls on keys of their own, and the faults that are aimed at them. */
export interface Scene {
  readonly calls: readonly CallPlan[];
  readonly faults: readonly FaultPlan[];
}

/** What a store calls the messages at which the scenes of all stores are aimed. */
export interface SceneMessages {
  /** The first request for a key that nobody has asked for. */
  readonly acquire: string;
  readonly renew: string;
  readonly release: string;
  /** Tells a waiter that it is granted. */
  readonly granted: string;
}

export interface SceneFrame {
  readonly dice: Dice;
  /** No other call asks for it, nor for a key that begins with it. */
  readonly key: string;
  /** Its calls begin then. */
  readonly atMs: number;
  /** At least two. */
  readonly processes: number;
  readonly servers: number;
  readonly messages: SceneMessages;
  /** Of one message at most. */
  readonly latencyMs: number;
  readonly watchdogTimeoutMs: number;
  readonly storeOptions: StoreOptions;
}

export type DrawScene = (frame: SceneFrame) => Scene;

interface ScenePool {
  /** Of every store. */
  readonly shared: readonly DrawScene[];
  /** Of this one alone. */
  readonly own: readonly DrawScene[];
}

/** In few histories, as each scene must be met undisturbed: one or two of them, and then fewer other calls and faults. */
export function drawScenes(
  { dice, ...frame }: Omit<SceneFrame, 'key' | 'atMs'>,
  { shared, own }: ScenePool,
  lengthMs: number,
): readonly Scene[] {
  if (!dice.happens(0.4)) return [];
  return Array.from({ length: dice.int(1, 2) }, (_, i) => {
    const all = own.length > 0 && dice.happens(0.5) ? own : shared;
    const draw = dice.pick(all);
    count(`scene: ${draw.name}`);
    return draw({ ...frame, dice, key: `scene${i}`, atMs: dice.int(0, lengthMs) });
  });
}
