import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { type Chance, type Clock, systemChance, systemClock } from '../../common/clock.js';
import { isPromiseLike } from '../../common/promises.js';
import type { LockClient, LockStoreFactory } from '../../port/lock-store.js';
import { LockConfigurationError } from '../../port/lock.errors.js';
import {
  checkOptions,
  describeGiven,
  describeMs,
  describeNumber,
  type OptionRule,
  type OptionRules,
  RULE,
} from '../../port/option-checks.js';
import type { AttachOptions, CallOptions, WithLockOptions } from '../lock.js';

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

const MAX_PERMITS = 1_000_000;
/** The largest `weight`. A call with weight n writes n entries into the store, so this bounds how long one call can keep the store busy. */
const MAX_WEIGHT = 1000;
const MIN_LEASE_MS = 10;
/** The longest lease, 366 days. */
export const MAX_LEASE_MS = 366 * 24 * 3_600_000;
/** Default of `graceMs`: how long the work of a holder may still take when its lock is taken over. */
export const GRACE_MS = 1000;
/** The longest name of an application or a `site`, in characters. A longer one would fill a whole line of a log. */
export const MAX_TEXT = 100;

const WAIT: OptionRule = [
  (ms) => typeof ms === 'number' && ms >= 0,
  'a number of ms, 0 or more (Infinity allowed)',
  describeMs,
];
const LEASE: OptionRule = [
  isLease,
  `a whole number of ms from ${MIN_LEASE_MS} to ${MAX_LEASE_MS}`,
  describeMs,
];
const SHORT_TEXT: OptionRule = [
  (text) => typeof text === 'string' && text !== '' && text.length <= MAX_TEXT,
  `a text of 1 to ${MAX_TEXT} characters`,
  (text) =>
    typeof text === 'string' && text !== '' ? `${text.length} characters long` : describeGiven(text),
];

export const SERVICE_RULES: OptionRules<LockServiceOptions> = {
  store: true,
  keyPrefix: RULE.text,
  application: [(name) => name === false || SHORT_TEXT[0](name), SHORT_TEXT[1], SHORT_TEXT[2]],
  waitMs: WAIT,
  watchdogTimeoutMs: LEASE,
  shutdownGraceMs: WAIT,
  defaults: true,
  clock: true,
  chance: true,
};
const ACQUIRE: OptionRules<CallOptions> = {
  waitMs: WAIT,
  maxWaiting: [
    (count) => count === Infinity || (Number.isInteger(count) && Number(count) >= 0),
    'a whole number, 0 or more (Infinity allowed)',
    describeNumber,
  ],
  onBusy: RULE.oneOf('throw', 'takeover'),
  graceMs: LEASE,
  leaseMs: LEASE,
  mode: RULE.oneOf('exclusive', 'shared'),
  permits: countTo(MAX_PERMITS),
  weight: countTo(MAX_WEIGHT),
  fair: RULE.boolean,
  reentrant: RULE.boolean,
  holdAtLeastMs: [(ms) => ms === 0 || isLease(ms), LEASE[1], describeMs],
  site: SHORT_TEXT,
  signal: [isAbortSignal, 'an AbortSignal, as controller.signal'],
  onQueued: [(value) => typeof value === 'function', 'a function of the place in line'],
};
const WITH_LOCK: OptionRules<WithLockOptions> = { ...ACQUIRE, onLost: RULE.oneOf('throw', 'ignore') };
const { waitMs, site, signal } = ACQUIRE;
const ATTACH: OptionRules<AttachOptions> = { waitMs, site, signal };
export const CALL_RULES = { acquire: ACQUIRE, withLock: WITH_LOCK, attach: ATTACH };

function isLease(ms: unknown): boolean {
  return Number.isInteger(ms) && Number(ms) >= MIN_LEASE_MS && Number(ms) <= MAX_LEASE_MS;
}

/** @param name of the argument that must be a lease, in the message @throws LockConfigurationError, also for a missing one */
export function checkLease(name: string, ms: unknown): void {
  if (!isLease(ms)) throw new LockConfigurationError(`${name} must be ${LEASE[1]}; it is ${describeMs(ms)}.`);
}

function countTo(max: number): OptionRule {
  const isRight = (count: unknown) => Number.isInteger(count) && Number(count) >= 1 && Number(count) <= max;
  return [isRight, `a whole number from 1 to ${max}`, describeNumber];
}

/**
 * Whether this is an AbortSignal. A property `aborted` does not prove it: the request objects of Node have one, too, but emit no `abort`
 * event.
 */
function isAbortSignal(value: unknown): boolean {
  const given = value as Partial<AbortSignal> | null;
  if (typeof given?.aborted !== 'boolean') return false;
  return typeof given.addEventListener === 'function' || isWaitOfMethod(given);
}

/** Whether this is no AbortSignal, but what `@Locked` gives in place of one (`WaitCancellation`). */
export function isWaitOfMethod(signal: Partial<AbortSignal> | undefined): boolean {
  return signal !== undefined && 'onAbort' in signal;
}

/** The options of a call or a service that gives none. All services share this frozen object, and code compares with it to skip checks. */
export const NO_OPTIONS: CallOptions = Object.freeze({});

export function resolveLockOptions(options: LockServiceOptions | undefined): ResolvedLockOptions {
  if (options === undefined) {
    throw new LockConfigurationError(
      'A LockService was made without options. In a Nest application take it out of providers and imports, and import DistributedLockModule.forRoot(…), which provides it. Elsewhere write new LockService({ store: memoryStore() }).',
    );
  }
  checkOptions('LockService', options, SERVICE_RULES);
  const { store, keyPrefix = '', waitMs = 10_000, watchdogTimeoutMs = 30_000 } = options;
  const { shutdownGraceMs = 10_000, defaults = NO_OPTIONS, clock = systemClock } = options;
  const { chance = systemChance, application = defaultApplication() } = options;
  checkDefaults(defaults);
  if (typeof store?.create !== 'function') {
    throw new LockConfigurationError(
      `store must be what memoryStore(), redisStore(…) or another store function returns; it was given ${describeGiven(store)}. ${howToGive(store)}`,
    );
  }
  const times = { waitMs, watchdogTimeoutMs, shutdownGraceMs };
  return { store, keyPrefix, ...times, defaults, clock, chance, application };
}

/**
 * Refuses options that make no sense as defaults of a registration. A default also applies to calls whose author did not think of it:
 * `tryAcquire`, readers, permits and the candidates for a leader.
 */
function checkDefaults(defaults: CallOptions): void {
  checkOptions('defaults', defaults, ACQUIRE);
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

/**
 * Refuses options of a call that contradict each other. Their values were checked before, by `CALL_RULES`.
 *
 * @param waitMs how long the call waits: by its own option, or by that of the service
 */
export function checkCallOptions(options: CallOptions, waitMs = options.waitMs): void {
  const { mode, permits, weight, leaseMs, holdAtLeastMs } = options;
  if (weight !== undefined && permits === undefined) {
    throw new LockConfigurationError(`weight (${weight}) is a share of permits: give permits with it.`);
  }
  if (permits !== undefined && mode !== undefined) {
    throw new LockConfigurationError(
      `permits (${permits}) and mode ('${mode}') exclude each other: readers are not counted.`,
    );
  }
  if (weight !== undefined && permits !== undefined && weight > permits) {
    throw new LockConfigurationError(`weight (${weight}) must not be more than permits (${permits}).`);
  }
  if (leaseMs !== undefined && holdAtLeastMs !== undefined && holdAtLeastMs > leaseMs) {
    throw new LockConfigurationError(
      `holdAtLeastMs (${holdAtLeastMs}) must not be longer than leaseMs (${leaseMs}): the lease would end before.`,
    );
  }
  if (options.onBusy === 'takeover') checkTakeover(options, waitMs);
  else if (options.graceMs !== undefined) {
    throw new LockConfigurationError(
      `graceMs is for calls that take a lock over: give onBusy: 'takeover' with it.`,
    );
  }
}

function checkTakeover(options: CallOptions, waitMs: number | undefined): void {
  const { graceMs = GRACE_MS } = options;
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

/** The option that contradicts a takeover, if the call has one. */
function refusedBeside({ fair, maxWaiting, permits, mode }: CallOptions): string | undefined {
  if (fair) return 'fair';
  if (maxWaiting !== undefined && maxWaiting !== Infinity) return `maxWaiting (${maxWaiting})`;
  if (permits !== undefined) return `permits (${permits})`;
  return mode === 'shared' ? `mode: 'shared'` : undefined;
}

const DEPENDENCIES = /[\\/]node_modules[\\/]/;
let defaultName: string | undefined;

/**
 * The name of an application that has no option `application`: the one in the nearest `package.json`, or the title of the process. Read
 * once.
 */
function defaultApplication(): string {
  return (defaultName ??= (nearestPackage(startFolder()) ?? process.title).slice(0, MAX_TEXT) || 'node');
}

/** Names this process for people who look for the holder of a lock. @param since the time of day in ms */
export function thisProcess(application: string | false, since: number): LockClient {
  const client = { host: hostname(), process: process.pid, since: new Date(since) };
  return Object.freeze({ application: application || defaultApplication(), ...client });
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
