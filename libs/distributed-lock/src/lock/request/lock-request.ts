import { type AttachRequest, type Claim, LOCK, modeOf, placeholderOf } from '../../port/lock-store.js';
import { LockConfigurationError, LockKeyError } from '../../port/lock.errors.js';
import { describeGiven, overlay } from '../../port/option-checks.js';
import type { AttachOptions, CallOptions } from '../lock.js';
import type { Baton } from './baton.js';
import type { CallSite } from './call-site.js';
import { type KeyClaim, keyOf, type Keys, withClaimOf } from './key-claim.js';
import { checkCallOptions, GRACE_MS, NO_OPTIONS, type ResolvedLockOptions } from './lock-options.js';

/** The request of one call: the key that it asks for, and on which terms. */
export interface LockRequest {
  readonly key: string;
  readonly terms: Terms;
  /** Names the caller, for people to read: the method with `@Locked`, the option `site`, or the line that called `acquire`. */
  readonly site: string | CallSite | undefined;
  readonly signal: AbortSignal | undefined;
  readonly onQueued: CallOptions['onQueued'];
  /** Set if the call does not ask for the key, but goes on with a lock that was detached. */
  readonly detached?: Pick<AttachRequest, 'from' | 'token'>;
}

/** The options of a call for its key, with every default filled in. Calls without options share one object. */
export interface Terms {
  readonly claim: Claim;
  readonly waitMs: number;
  /** `Infinity` without a limit. */
  readonly maxWaiting: number;
  /** The grace of a call that takes the lock over; `undefined` for a call that waits for its turn. */
  readonly graceMs: number | undefined;
  readonly leaseMs: number;
  /** Whether the watchdog renews the lease until the release. Otherwise the lease is fixed. */
  readonly watched: boolean;
  readonly fair: boolean;
  /** Whether nested calls of the same async flow may share the lock of this call. */
  readonly reentrant: boolean;
  readonly holdAtLeastMs: number;
}

/** The longest key. Redis allows 512 MB, but a key of more than this is always a mistake. */
const MAX_KEY_LENGTH = 1024;
/**
 * The most keys of one call. Each of them is a lock of its own. Clients of an application may be able to choose how many it asks for, and
 * must not make it acquire thousands of locks.
 */
const MAX_KEYS = 100;

/** Turns the keys and options of calls into requests, for one service. */
export class LockRequests {
  /** The terms of a call without options, in a service without defaults. */
  private readonly plain: Terms;

  constructor(private readonly options: ResolvedLockOptions) {
    this.plain = termsOf(NO_OPTIONS, options);
  }

  /**
   * @param site used if the call has no option `site`
   * @throws LockConfigurationError for wrong options
   */
  of(key: string, call: CallOptions, site?: CallSite): LockRequest {
    const { options } = this;
    const { defaults } = options;
    if (call === NO_OPTIONS && defaults === NO_OPTIONS) {
      return { key, terms: this.plain, site, signal: undefined, onQueued: undefined };
    }
    const given = defaults === NO_OPTIONS ? call : withDefaults(call, defaults);
    checkCallOptions(given, given.waitMs ?? options.waitMs);
    const { signal, onQueued } = given;
    return { key, terms: termsOf(given, options), site: given.site ?? site, signal, onQueued };
  }

  /**
   * The request of a call that goes on with a detached lock. Defaults for calls that ask for a key do not apply. The owner serves this
   * call alone (`fair`), because it has one token.
   */
  attaching(baton: Baton, call: AttachOptions, site: CallSite): LockRequest {
    const { defaults, waitMs: patience } = this.options;
    const { waitMs = defaults.waitMs ?? patience, signal } = call;
    const terms = { ...termsOf({ waitMs, fair: true }, this.options), claim: baton.claim };
    const detached = { from: placeholderOf(baton.owner), token: baton.token };
    return { key: baton.key, terms, site: call.site ?? site, signal, onQueued: undefined, detached };
  }

  /**
   * The requests of a call for a list of keys, one for each key, in the order of the list.
   *
   * @throws LockConfigurationError also for a key with two different claims, and for a takeover whose `waitMs` could end after some
   * holders have lost their locks
   */
  several(keys: readonly (string | KeyClaim)[], call: CallOptions, site?: CallSite): readonly LockRequest[] {
    const byKey = new Map<string, LockRequest>();
    for (const item of keys) {
      const key = keyOf(item);
      const request = this.of(key, typeof item === 'string' ? call : withClaimOf(call, item), site);
      const same = byKey.get(key);
      if (!same) byKey.set(key, request);
      else if (kindName(key, same.terms) !== kindName(key, request.terms))
        throw twoClaimsError(same, request);
    }
    const requests = [...byKey.values()];
    const { graceMs, waitMs = 0 } = requests[0]?.terms ?? {};
    const count = requests.length;
    if (graceMs === undefined || waitMs > count * graceMs) return requests;
    throw new LockConfigurationError(
      `waitMs (${waitMs}) must be longer than ${count} times graceMs (${graceMs}): the call takes its ${count} keys over one after the other, and would give up after a holder has lost its lock.`,
    );
  }
}

function termsOf(given: CallOptions, { waitMs, watchdogTimeoutMs }: ResolvedLockOptions): Terms {
  const { maxWaiting = Infinity, graceMs = GRACE_MS, leaseMs, holdAtLeastMs = 0 } = given;
  return {
    claim: claimOf(given),
    waitMs: given.waitMs ?? waitMs,
    maxWaiting,
    graceMs: given.onBusy === 'takeover' ? graceMs : undefined,
    leaseMs: leaseMs ?? watchdogTimeoutMs,
    watched: leaseMs === undefined,
    fair: given.fair ?? false,
    reentrant: given.reentrant ?? true,
    holdAtLeastMs,
  };
}

/**
 * Adds the defaults to the options of a call. If the call gives a claim (`mode` or `permits`), the default claim does not apply. A
 * takeover goes ahead of all that wait, so a default `maxWaiting` does not apply to it.
 */
function withDefaults(call: CallOptions, defaults: CallOptions): CallOptions {
  if (call === NO_OPTIONS) return defaults;
  const { mode, permits, weight, maxWaiting } = call;
  const namesClaim = mode !== undefined || permits !== undefined;
  return {
    ...overlay(defaults, call),
    ...(namesClaim && { mode, permits, weight }),
    ...(call.onBusy === 'takeover' && { maxWaiting }),
  };
}

/** Returns the name of the local queue of a request: the same text for all calls with the same key, claim and lease. */
export function kindName(key: string, { claim, watched, leaseMs }: Terms): string {
  const kind = claim.kind === 'permits' ? `permits ${claim.permits} ${claim.weight}` : claim.kind;
  return `${kind} ${watched ? '' : leaseMs} ${key}`;
}

export function claimOf({ mode, permits, weight = 1 }: CallOptions): Claim {
  if (permits !== undefined) return { kind: 'permits', permits, weight };
  return mode === undefined ? LOCK : { kind: mode };
}

/** The claim in the words of the call options, for messages: `shared`, `2 of 5 permits`. */
export function claimText(claim: Claim): string {
  if (claim.kind !== 'permits') return modeOf(claim);
  return `${claim.weight} of ${claim.permits} permits`;
}

function twoClaimsError(...requests: readonly [LockRequest, LockRequest]): LockConfigurationError {
  const [one, other] = requests.map(({ terms: { claim } }) =>
    claim.kind === 'lock' ? 'without a mode' : `as ${claimText(claim)}`,
  );
  return new LockConfigurationError(
    `"${requests[0].key}" was given twice, ${one} and ${other}: a call holds each key in one way. Leave one of the two out.`,
  );
}

/**
 * Checks the keys and drops duplicates, but not those of keys with a claim.
 *
 * @returns a string if there is only one key, and it has no claim
 * @throws LockKeyError for a wrong key
 * @throws LockConfigurationError if there is no key
 */
export function checkKeys(keys: Keys): string | readonly (string | KeyClaim)[] {
  if (typeof keys === 'string') return checkKey(keys);
  const list: readonly (string | KeyClaim)[] = isList(keys) ? [...new Set(keys)] : [keys];
  if (list.length === 0) throw new LockConfigurationError('No key was given: an empty list locks nothing.');
  const texts = new Set(list.map(keyOf));
  if (texts.size > MAX_KEYS) {
    throw new LockKeyError(
      `${texts.size} keys were given in one call; at most ${MAX_KEYS} are allowed.`,
      undefined,
    );
  }
  texts.forEach(checkKey);
  const [first] = list;
  return list.length === 1 && typeof first === 'string' ? first : list;
}

function isList(keys: Keys): keys is readonly (string | KeyClaim)[] {
  return Array.isArray(keys);
}

/** @throws LockKeyError for a key that no lock can have */
export function checkKey(given: unknown): string {
  const key = checkKeyText(given);
  if (key.length > MAX_KEY_LENGTH) {
    throw new LockKeyError(
      `The key "${key.slice(0, 40)}…" has ${key.length} characters; at most ${MAX_KEY_LENGTH} are allowed.`,
      key.slice(0, 40),
    );
  }
  if (!isWellFormed(key)) {
    throw new LockKeyError(
      `The key ${JSON.stringify(key)} has half a surrogate pair. Stores replace it, so that two such keys would be one lock.`,
      key,
    );
  }
  return key;
}

/**
 * For calls that only look at a key, which another library may have locked under a name that `checkKey` refuses.
 *
 * @throws LockKeyError for a key that is missing or empty, as that of a field that a request lacks
 */
export function checkKeyText(key: unknown): string {
  if (typeof key === 'string' && key !== '') return key;
  throw new LockKeyError(`A key must be a non-empty string; it is ${describeGiven(key)}.`, undefined);
}

/** Whether the text has no lone surrogate. Node 20 has the method, but the types of ES2023 do not. */
function isWellFormed(text: string & { isWellFormed?: () => boolean }): boolean {
  return text.isWellFormed?.() ?? true;
}
