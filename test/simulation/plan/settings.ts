import type { Dice } from '../kernel/dice.js';
import { fields, nameOr, number, optional } from './checks.js';

/** How the services of one process are configured, where they are not as all others. */
export interface SettingsPlan {
  /** Default: `GRACE_MS`. */
  readonly shutdownGraceMs?: number | 'Infinity';
}

/** `shutdownGraceMs` of services that are not configured otherwise. */
export const GRACE_MS = 500;

export const SETTINGS = fields<SettingsPlan>({
  shutdownGraceMs: optional(nameOr('Infinity', number(0))),
});

export function drawSettings(dice: Dice): SettingsPlan | undefined {
  if (!dice.happens(0.12)) return undefined;
  return { shutdownGraceMs: dice.pick([0, 'Infinity', dice.scale(10, 8000)] as const) };
}

/** Those options of `LockService`. */
export function serviceOptionsOf({ shutdownGraceMs = GRACE_MS }: SettingsPlan = {}) {
  return { shutdownGraceMs: shutdownGraceMs === 'Infinity' ? Infinity : shutdownGraceMs };
}
