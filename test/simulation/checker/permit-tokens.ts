import type { HoldRecord } from '../history/history.js';
import { conflicts } from './exclusion.js';

/**
 * Whether two could not hold together, so that the later grant must have the larger token. Each call counts permits against its own
 * number, and of two that name different numbers either may have been granted first, and told last.
 */
export function excludes(a: HoldRecord, b: HoldRecord): boolean {
  if (a.claim !== 'permits' || b.claim !== 'permits') return conflicts(a, b);
  return a.weight + b.weight > Math.max(a.permits, b.permits);
}

/** Two holders that may hold together have tokens of their own all the same. */
export function haveOneToken(a: HoldRecord, b: HoldRecord): boolean {
  return a.claim === 'permits' && b.claim === 'permits' && a.token === b.token;
}
