import { exclusive } from './exclusive.mjs';
import { fair } from './fair.mjs';
import { permits } from './permits.mjs';
import { severalKeys } from './several-keys.mjs';
import { shared } from './shared.mjs';

/**
 * The calls that callers make: given the caller, one call. `mode` tells the checker how to judge it: `exclusive`,
 * `shared` (readers together) or `permits` (so many at once).
 *
 * @type {Record<string, (random: import('../../random.mjs').Random, about: { key: string, keys: readonly string[], shortMs: number }) =>
 *   { keys: readonly string[], mode: string, lengthMs: number, options: object }>}
 */
export const WORKLOADS = { exclusive, shared, permits, 'several-keys': severalKeys, fair };
