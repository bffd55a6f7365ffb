import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { type Chance, type Clock, systemChance, systemClock } from '../../common/clock.js';
import { isPromiseLike } from '../../common/promises.js';
import type { LockClient, LockStoreFactory } from '../../port/lock-store.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import {
  checkOption,
  checkOptionNames,
  describeGiven,
  describeMs,
  describeNumber,
  type OptionNames,
} from '../../port/option-checks.js';
import type { CallOptions, WithLockOptions } from '../lock.js';

/** Options of one registration, and of a `LockService` that is created by `new`. All times in ms. */
export interface LockServiceOptions {
  /** Where the locks are kept: `memoryStore()` (this thread only), `redisStore(…)` or another store. */
  readonly store: LockStoreFactory;
  /** Text before every key in the store; default: none. Services that share locks need the same. */
  readonly keyPrefix?: string;
  /**
   * The name of this application, by which people find the holder of a lock; default: the name in the nearest `package.json`, or the
   * title of the process. `false`: the store learns nothing about this process.
   */
  readonly application?: string | false;
  /** The longest time that a call waits in the queue; default 10 000. With 0, calls do not wait, as `tryAcquire` by default. */
  readonly waitMs?: number;
  /**
   * The lease of locks without `leaseMs`; default 30 000. While the holder works, the watchdog renews it whenever a third of it has
   * passed. If the holder crashes, its keys stay taken at most this long.
   */
  readonly watchdogTimeoutMs?: number;
  /** How long holders may still work at shutdown before the service takes their locks; default 10 000. */
  readonly shutdownGraceMs?: number;
  /** Options for every call that does not give them itself; default: none. Refuses a takeover, which only single calls may ask for. */
  readonly defaults?: CallOptions;
  /** The source of time, such as a `ManualClock` in tests; default: the clock of the machine. */
  readonly clock?: Clock;
  /** The source of random numbers and ids; default: that of the machine. */
  readonly chance?: Chance;
}

export type ResolvedLockOptions = Required<LockServiceOptions>;

export const SERVICE_NAMES: OptionNames<LockServiceOptions> = {
  store: true,
  keyPrefix: true,
  application: true,
  waitMs: true,
  watchdogTimeoutMs: true,
  shutdownGraceMs: true,
  defaults: true,
  clock: true,
  chance: true,
};
export const CALL_NAMES: OptionNames<CallOptions> = {
  waitMs: true,
  maxWaiting: true,
  onBusy: true,
  graceMs: true,
  leaseMs: true,
  mode: true,
  permits: true,
  weight: true,
  fair: true,
  reentrant: true,
  holdAtLeastMs: true,
  site: true,
  signal: true,
};
export const WITH_LOCK_NAMES: OptionNames<WithLockOptions> = { ...CALL_NAMES, onLost: true };

/** The options of a call or a service that gives none. All services share this frozen object, and code compares with it to skip checks. */
export const NO_OPTIONS: CallOptions = Object.freeze({});

const MAX_PERMITS = 1_000_000;
/** The largest `weight`. A call with weight n writes n entries into the store, so this bounds how long one call can keep the store busy. */
const MAX_WEIGHT = 1000;
const MIN_LEASE_MS = 10;
/** Default of `graceMs`: how long the work of a holder may still take when its lock is taken over. */
export const GRACE_MS = 1000;
/** The longest lease, 366 days. */
export const MAX_LEASE_MS = 366 * 24 * 3_600_000;

export function resolveLockOptions(options: LockServiceOptions | undefined): ResolvedLockOptions {
  if (options === undefined) {
    throw new LockConfigurationError(
      'A LockService was made without options. In a Nest application take it out of providers and imports, and import DistributedLockModule.forRoot(…), which provides it. Elsewhere write new LockService({ store: memoryStore() }).',
    );
  }
  checkOptionNames('LockService', options, SERVICE_NAMES);
  const { store, keyPrefix = '', waitMs = 10_000, watchdogTimeoutMs = 30_000 } = options;
  const { shutdownGraceMs = 10_000, defaults = NO_OPTIONS, clock = systemClock } = options;
  const { chance = systemChance, application = defaultApplication() } = options;
  checkWait('waitMs', waitMs);
  checkLease('watchdogTimeoutMs', watchdogTimeoutMs);
  checkWait('shutdownGraceMs', shutdownGraceMs);
  checkOptionNames('defaults', defaults, CALL_NAMES);
  checkDefaults(defaults);
  if (typeof store?.create !== 'function') {
    throw new LockConfigurationError(
      `store must be what memoryStore(), redisStore(…) or another store function returns; it was given ${describeGiven(store)}. ${howToGive(store)}`,
    );
  }
  checkOption(typeof keyPrefix === 'string', 'keyPrefix', 'a text', keyPrefix);
  if (application !== false) checkText('application', application);
  const times = { waitMs, watchdogTimeoutMs, shutdownGraceMs };
  return { store, keyPrefix, ...times, defaults, clock, chance, application };
}

/**
 * Refuses options that make no sense as defaults of a registration. A default also applies to calls whose author did not think of it:
 * `tryAcquire`, readers, permits and the candidates for a leader.
 */
function checkDefaults(defaults: CallOptions): void {
  if (defaults.onBusy === 'takeover' || defaults.graceMs !== undefined) {
    throw new LockConfigurationError(
      `defaults must not have onBusy: 'takeover' nor graceMs: each call of the service, those of leaders among them, would take locks from their holders. Give them to the calls that are to do so.`,
    );
  }
  checkCallOptions(defaults);
}

function howToGive(store: unknown): string {
  if (typeof store === 'function') return 'Call the function: memoryStore().';
  return typeof store === 'object' && store !== null && isPromiseLike(store)
    ? 'Make the store in an async useFactory of forRootAsync.'
    : 'Write redisStore(…) around a URL or a client.';
}

/** Checks the options of one call. @param waitMs how long the call waits: by its own option, or by that of the service */
export function checkCallOptions(options: CallOptions, waitMs = options.waitMs): void {
  const { maxWaiting, leaseMs, holdAtLeastMs, fair, reentrant, signal, site } = options;
  checkClaim(options);
  if (site !== undefined) checkText('site', site);
  if (fair !== undefined) checkFlag('fair', fair);
  if (reentrant !== undefined) checkFlag('reentrant', reentrant);
  if (signal !== undefined) {
    checkOption(isAbortSignal(signal), 'signal', 'an AbortSignal, as controller.signal', signal);
  }
  if (waitMs !== undefined) checkWait('waitMs', waitMs);
  if (maxWaiting !== undefined) {
    const isCount = maxWaiting === Infinity || (Number.isInteger(maxWaiting) && maxWaiting >= 0);
    const must = 'a whole number, 0 or more (Infinity allowed)';
    checkOption(isCount, 'maxWaiting', must, maxWaiting, describeNumber);
  }
  checkTakeover(options, waitMs);
  if (leaseMs !== undefined) checkLease('leaseMs', leaseMs);
  if (holdAtLeastMs === undefined) return;
  if (holdAtLeastMs !== 0) checkLease('holdAtLeastMs', holdAtLeastMs);
  if (leaseMs !== undefined && holdAtLeastMs > leaseMs) {
    throw new LockConfigurationError(
      `holdAtLeastMs (${holdAtLeastMs}) must not be longer than leaseMs (${leaseMs}): the lease would end before.`,
    );
  }
}

/**
 * Whether this is an AbortSignal. A property `aborted` does not prove it: the request objects of Node have one, too, but emit no `abort`
 * event.
 */
function isAbortSignal(given: Partial<AbortSignal> | null): boolean {
  if (typeof given?.aborted !== 'boolean') return false;
  return typeof given.addEventListener === 'function' || 'onAbort' in given;
}

function checkTakeover(options: CallOptions, waitMs: number | undefined): void {
  const { onBusy, graceMs = GRACE_MS } = options;
  if (onBusy !== 'takeover') {
    checkOption(
      onBusy === undefined || onBusy === 'throw',
      'onBusy',
      `'throw' or 'takeover'`,
      onBusy,
      String,
    );
    if (options.graceMs === undefined) return;
    throw new LockConfigurationError(
      `graceMs is for calls that take a lock over: give onBusy: 'takeover' with it.`,
    );
  }
  checkLease('graceMs', graceMs);
  const refused = refusedBeside(options);
  if (refused) {
    throw new LockConfigurationError(
      `onBusy: 'takeover' goes ahead of all that wait and takes the lock from its one holder, so it is not for ${refused}. Leave one of the two out.`,
    );
  }
  if (waitMs !== undefined && waitMs <= graceMs) {
    throw new LockConfigurationError(
      `waitMs (${waitMs}) must be longer than graceMs (${graceMs}): the call would give up before the holder loses the lock.`,
    );
  }
}

/**
 * Returns the option that contradicts a takeover, if the call has one. A takeover goes ahead of all that wait, and takes the lock from a
 * single holder.
 */
function refusedBeside({ fair, maxWaiting, permits, mode }: CallOptions): string | undefined {
  if (fair) return 'fair';
  if (maxWaiting !== undefined && maxWaiting !== Infinity) return `maxWaiting (${maxWaiting})`;
  if (permits !== undefined) return `permits (${permits})`;
  return mode === 'shared' ? `mode: 'shared'` : undefined;
}

export function checkOnLost(onLost: WithLockOptions['onLost']): void {
  const isRight = onLost === undefined || onLost === 'throw' || onLost === 'ignore';
  checkOption(isRight, 'onLost', `'throw' or 'ignore'`, onLost, String);
}

function checkClaim({ mode, permits, weight }: CallOptions): void {
  const isMode = mode === undefined || mode === 'exclusive' || mode === 'shared';
  checkOption(isMode, 'mode', `'exclusive' or 'shared'`, mode, (value) => JSON.stringify(value));
  if (weight !== undefined && permits === undefined) {
    throw new LockConfigurationError(`weight (${weight}) is a share of permits: give permits with it.`);
  }
  if (permits === undefined) return;
  if (mode !== undefined) {
    throw new LockConfigurationError(
      `permits (${permits}) and mode ('${mode}') exclude each other: readers are not counted.`,
    );
  }
  checkCount('permits', permits, MAX_PERMITS);
  if (weight !== undefined) checkCount('weight', weight, MAX_WEIGHT);
  if (weight !== undefined && weight > permits) {
    throw new LockConfigurationError(`weight (${weight}) must not be more than permits (${permits}).`);
  }
}

function checkFlag(name: string, flag: unknown): void {
  checkOption(typeof flag === 'boolean', name, 'true or false', flag);
}

function checkText(name: string, text: unknown): void {
  const isRight = typeof text === 'string' && text !== '' && text.length <= MAX_TEXT;
  checkOption(isRight, name, `a text of 1 to ${MAX_TEXT} characters`, text, (value) =>
    typeof value === 'string' && value !== '' ? `${value.length} characters long` : describeGiven(value),
  );
}

function checkCount(name: string, count: number, max: number): void {
  const isRight = Number.isInteger(count) && count >= 1 && count <= max;
  checkOption(isRight, name, `a whole number from 1 to ${max}`, count, describeNumber);
}

function checkWait(name: string, ms: number): void {
  const isRight = typeof ms === 'number' && ms >= 0;
  checkOption(isRight, name, 'a number of ms, 0 or more (Infinity allowed)', ms, describeMs);
}

export function checkLease(name: string, ms: number): void {
  const isRight = Number.isInteger(ms) && ms >= MIN_LEASE_MS && ms <= MAX_LEASE_MS;
  checkOption(isRight, name, `a whole number of ms from ${MIN_LEASE_MS} to ${MAX_LEASE_MS}`, ms, describeMs);
}

/** The longest name of an application or a `site`, in characters. A longer one would fill a whole line of a log. */
export const MAX_TEXT = 100;
const DEPENDENCIES = /[\\/]node_modules[\\/]/;
let defaultName: string | undefined;

/**
 * The name of an application that has no option `application`: the one in the nearest `package.json`, or the title of the process. Read
 * once.
 */
export function defaultApplication(): string {
  return (defaultName ??= (nearestPackage(startFolder()) ?? process.title).slice(0, MAX_TEXT) || 'node');
}

/** Names this process for people who look for the holder of a lock. @param since the time of day in ms */
export function thisProcess(application: string, since: number): LockClient {
  return Object.freeze({ application, host: hostname(), process: process.pid, since: new Date(since) });
}

/** Returns the folder of the script that Node was started with; for a script of a tool in `node_modules`, the working folder instead. */
function startFolder(): string {
  const script = process.argv[1];
  return script === undefined || DEPENDENCIES.test(script) ? process.cwd() : dirname(script);
}

/** The name in the first `package.json` that has one, looking in `folder` and then in each folder above it. */
export function nearestPackage(folder: string): string | undefined {
  const name = packageName(join(folder, 'package.json'));
  const parent = dirname(folder);
  return name ?? (parent === folder ? undefined : nearestPackage(parent));
}

function packageName(file: string): string | undefined {
  try {
    const { name } = JSON.parse(readFileSync(file, 'utf8')) as { readonly name?: unknown };
    return typeof name === 'string' && name !== '' ? name : undefined;
  } catch {
    return undefined;
  }
}
