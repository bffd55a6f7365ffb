import type { Lock } from '../lock/lock.js';
import { checkOptions } from '../options/option-names.js';
import { assertAlone, NESTED_WRITES, type Fence, type NestedWrites } from './fence.js';

/** Two lists of HTTP in the same order: the keys, percent-encoded, and their tokens. */
const FENCING_KEY = 'fencing-key';
const FENCING_TOKEN = 'fencing-token';

/** Tokens that are ahead of our clock by more than a day are refused. Tokens are µs of a clock, or smaller. */
const MAX_LEAD_US = 24 * 3600 * 1e6;
const MAX_KEYS = 100;

/**
 * The headers that pass the keys and tokens of a lock on to another service, which refuses stale ones by `@Fenced`.
 *
 * `fetch(url, { headers: fencingHeaders(lock) })`
 */
export function fencingHeaders(
  lock: Pick<Lock, 'keys' | 'tokenOf'> & Pick<Fence, 'depth' | 'calls'>,
  options: FencingHeadersOptions = {},
): Record<'fencing-key' | 'fencing-token', string> {
  checkOptions('fencingHeaders', options, { nested: NESTED_WRITES });
  const { depth, calls } = lock;
  assertAlone({ key: lock.keys.join(', '), depth, calls }, options.nested);
  const keys = lock.keys.map((key) => encodeURIComponent(key));
  const tokens = lock.keys.map((key) => lock.tokenOf(key));
  return { [FENCING_KEY]: keys.join(', '), [FENCING_TOKEN]: tokens.join(', ') } as const;
}

/** Options of `fencingHeaders`. */
export interface FencingHeadersOptions {
  /** Whether a call may pass on a lock that it shares with another call; default `'allow'`. */
  readonly nested?: NestedWrites;
}

/**
 * The fences in the headers of a request.
 *
 * @returns an empty list when there are none; `undefined` when they cannot be read, or when a token is more than a day
 * ahead of the clock. Such a token, once remembered, would refuse all real ones.
 */
export function readFences(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
): readonly Fence[] | undefined {
  const keys = listOf(headers[FENCING_KEY]);
  const tokens = listOf(headers[FENCING_TOKEN]);
  if (keys.length !== tokens.length || keys.length > MAX_KEYS) return undefined;
  const fences = keys.map((key, i) => ({ key: decoded(key), fencingToken: tokenIn(tokens[i] as string) }));
  return fences.every(isWhole) ? fences : undefined;
}

function isWhole(fence: { key: string | undefined; fencingToken: number | undefined }): fence is Fence {
  return fence.key !== undefined && fence.fencingToken !== undefined;
}

function listOf(header: string | readonly string[] | undefined): string[] {
  const text = Array.isArray(header) ? header.join(',') : ((header as string | undefined) ?? '');
  return text === '' ? [] : text.split(',').map((part) => part.trim());
}

function tokenIn(text: string): number | undefined {
  const token = /^\d{1,16}$/.test(text) ? Number(text) : 0;
  return token >= 1 && token <= Date.now() * 1000 + MAX_LEAD_US ? token : undefined;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text) || undefined;
  } catch {
    return undefined;
  }
}
