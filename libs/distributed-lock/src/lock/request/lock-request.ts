import { LOCK, type Claim } from '../../port/claim.js';
import { describeGiven } from '../../options/describe-given.js';
import { LockConfigurationError, LockKeyError } from '../../port/lock.errors.js';
import type { CallSite } from './call-site.js';
import { checkCallOptions, GRACE_MS, type ResolvedLockOptions } from './lock-options.js';
import type { CallOptions, Keys } from '../lock.js';

/** One call for one key, with every default filled in. */
export interface LockRequest {
  readonly key: string;
  readonly claim: Claim;
  readonly waitMs: number;
  /** `Infinity` without a limit. */
  readonly maxWaiting: number;
  /** The grace of a call that takes the lock over; `undefined` for one that waits for its turn. */
  readonly graceMs: number | undefined;
  readonly leaseMs: number;
  /** The watchdog renews the lease until the release; otherwise the lease is fixed. */
  readonly watched: boolean;
  readonly fair: boolean;
  /** Calls of one async flow may share the lock of this call. */
  readonly reentrant: boolean;
  readonly holdAtLeastMs: number;
  /** The method that asks, the name that its caller gives, or the call of `acquire`, for people to read. */
  readonly site: string | CallSite | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Redis allows 512 MB, but a longer key is always a mistake. */
const MAX_KEY_LENGTH = 1024;
const HALF_A_PAIR = /\p{Surrogate}/u;
/** Each key is a lock of its own. A client of the application may choose their number, and must not choose thousands. */
const MAX_KEYS = 100;

export function lockRequest(
  key: string,
  call: CallOptions,
  options: ResolvedLockOptions,
  line?: CallSite,
): LockRequest {
  const { defaults } = options;
  const leaseMs = call.leaseMs ?? defaults.leaseMs;
  const holdAtLeastMs = call.holdAtLeastMs ?? defaults.holdAtLeastMs ?? 0;
  const { mode, permits } = claims(call) ? call : defaults;
  const weight = call.weight ?? (claims(call) ? undefined : defaults.weight);
  const { maxWaiting, signal, site } = call;
  const fair = call.fair ?? defaults.fair;
  const reentrant = call.reentrant ?? defaults.reentrant;
  const waitMs = call.waitMs ?? defaults.waitMs ?? options.waitMs;
  const { onBusy, graceMs } = call;
  const isTakeover = onBusy === 'takeover';
  checkCallOptions({
    waitMs,
    maxWaiting,
    onBusy,
    graceMs,
    mode,
    permits,
    weight,
    leaseMs,
    holdAtLeastMs,
    fair,
    reentrant,
    signal,
    site,
  });
  return {
    key,
    claim: claimOf(mode, permits, weight),
    waitMs,
    maxWaiting: isTakeover ? Infinity : (maxWaiting ?? defaults.maxWaiting ?? Infinity),
    graceMs: isTakeover ? (graceMs ?? GRACE_MS) : undefined,
    leaseMs: leaseMs ?? options.watchdogTimeoutMs,
    watched: leaseMs === undefined,
    fair: fair ?? false,
    reentrant: reentrant ?? true,
    holdAtLeastMs,
    site: site ?? defaults.site ?? line,
    signal: call.signal ?? defaults.signal,
  };
}

/** @throws LockConfigurationError for a takeover that would give up after some of its holders have lost their locks */
export function checkGraces(requests: readonly [LockRequest, ...LockRequest[]]): void {
  const [{ graceMs, waitMs }] = requests;
  const count = requests.length;
  if (graceMs === undefined || waitMs > count * graceMs) return;
  throw new LockConfigurationError(
    `waitMs (${waitMs}) must be longer than ${count} times graceMs (${graceMs}): the call takes its ${count} keys over one after the other, and would give up after a holder has lost its lock.`,
  );
}

/** The same for all calls with the same claim and the same lease of the same key. */
export function kindName({ key, claim, watched, leaseMs }: LockRequest): string {
  const kind = claim.kind === 'permits' ? `permits ${claim.permits} ${claim.weight}` : claim.kind;
  return `${kind} ${watched ? '' : leaseMs} ${key}`;
}

/** True for a call that names a claim, to which the default claim does not apply. */
function claims({ mode, permits }: CallOptions): boolean {
  return mode !== undefined || permits !== undefined;
}

function claimOf(mode: CallOptions['mode'], permits: number | undefined, weight = 1): Claim {
  if (permits !== undefined) return { kind: 'permits', permits, weight };
  return mode === undefined ? LOCK : { kind: mode };
}

/** The distinct keys, or the only one. @throws LockKeyError, LockConfigurationError when there is none */
export function checkKeys(keys: Keys): string | readonly string[] {
  if (typeof keys === 'string') return checkKey(keys);
  const list = Array.isArray(keys) ? [...new Set(keys as readonly string[])] : [keys as unknown as string];
  if (list.length === 0) throw new LockConfigurationError('No key was given: an empty list locks nothing.');
  if (list.length > MAX_KEYS) {
    throw new LockKeyError(
      `${list.length} keys were given in one call; at most ${MAX_KEYS} are allowed.`,
      undefined,
    );
  }
  list.forEach(checkKey);
  return list.length === 1 ? (list[0] as string) : list;
}

function checkKey(key: string): string {
  if (typeof key !== 'string' || key === '') {
    throw new LockKeyError(`A key must be a non-empty string; it is ${describeGiven(key)}.`, undefined);
  }
  if (key.length > MAX_KEY_LENGTH) {
    throw new LockKeyError(
      `The key "${key.slice(0, 40)}…" has ${key.length} characters; at most ${MAX_KEY_LENGTH} are allowed.`,
      key.slice(0, 40),
    );
  }
  if (HALF_A_PAIR.test(key)) {
    throw new LockKeyError(
      `The key ${JSON.stringify(key)} has half a surrogate pair. Stores replace it, so that two such keys would be one lock.`,
      key,
    );
  }
  return key;
}
