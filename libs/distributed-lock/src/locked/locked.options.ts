// The options of `@Locked` and `@LockDefaults`: what they mean, what is checked, and which of them the service gets. The
// decorators check them when a class is loaded, and `LockPlan` merges them for each method.
import { injectLockService } from '../distributed-lock.tokens.js';
import type { CallOptions, WithLockOptions } from '../lock/lock.js';
import type { KeySite } from '../keys/key-plan.js';
import { withClaimOf } from '../lock/request/key-claim.js';
import { CALL_RULES, checkCallOptions, MAX_TEXT } from '../lock/request/lock-options.js';
import { refuseStandard } from '../nest/metadata.js';
import { LockConfigurationError, type LockWaitTimeoutError } from '../port/lock.errors.js';
import { RULE, checkOptions, type OptionRules, overlay } from '../port/option-checks.js';
import { type LockHttpOptions, resolveLockHttp } from './client-errors.js';

/** Options of `@Locked` and `@LockDefaults`. Options that are left out come from the module. */
export interface LockedOptions extends Omit<WithLockOptions, 'onBusy'> {
  /** The name of the registration to use, as `forRoot` has it; default: the registration without a name. */
  readonly name?: string;
  /**
   * Decides what a call does when the key is not free within `waitMs`.
   *
   * - `'throw'` (default): the call rejects with `LockWaitTimeoutError`, on HTTP with the status 423.
   * - `'skip'`: the call returns `undefined` without running the method. It tries one time, and waits only if `waitMs` is given.
   *   HTTP handlers refuse this option at boot.
   * - A function: the call returns what the function returns. In place of an async generator this is an iterable, and in place of
   *   server-sent events an Observable or one event.
   * - `'takeover'`: the call does not wait for its turn. It takes the lock from its holder after `graceMs`, as in `CallOptions`.
   *
   * A lock error that the method itself throws passes through unchanged.
   */
  readonly onBusy?: 'throw' | 'skip' | 'takeover' | BusyFallback;
  /** Called with the method's arguments before anything is acquired. If it returns `false`, the method runs without the lock. */
  readonly when?: LockPredicate;
  /**
   * For methods that return an Observable and are called by other code. The call returns an Observable that acquires on
   * subscription and releases when it ends or its reader unsubscribes. Default `false`. Handlers need no flag.
   */
  readonly stream?: boolean;
  /** The answers to lock errors for HTTP clients. Those that are left out come from the module. */
  readonly http?: LockHttpOptions;
}

/**
 * Answers in place of the method when the key is not free within `waitMs`: gets the error, then the arguments of the method.
 *
 * Its `this` is the object of the method, so it can use what is injected there. To use it, write no arrow function, and declare its
 * class: `onBusy(this: Orders, busy, id: string) { … }`. A request-scoped handler for messages has an object of its own for each
 * call of `onBusy`. A handler that is a provider under another token than its class has no `this`.
 */
export type BusyFallback = (busy: LockWaitTimeoutError, ...args: never[]) => unknown;

/** Decides from the method's arguments whether a call needs the lock. */
export type LockPredicate = (...args: never[]) => boolean | Promise<boolean>;

export const LOCKED_RULES: OptionRules<LockedOptions> = {
  ...CALL_RULES.withLock,
  name: RULE.registration,
  onBusy: [
    (value) => typeof value === 'function' || ['throw', 'skip', 'takeover'].includes(value as string),
    "'throw', 'skip', 'takeover' or a function",
    String,
  ],
  when: [(value) => typeof value === 'function', 'a function of the arguments of the method'],
  stream: RULE.boolean,
  http: true,
};
const LOCK_DEFAULTS = Symbol.for('nestjs-distributed-lock/defaults');

/** Defaults for all `@Locked` methods of a class. The options of a `@Locked` win over them. By itself it does not lock anything. */
export function LockDefaults(options: LockedOptions): ClassDecorator {
  return (target, ...context: unknown[]) => {
    refuseStandard('@LockDefaults', context[0]);
    if (typeof target !== 'function' || context.length > 0) {
      throw new LockConfigurationError('@LockDefaults belongs on a class: on a method write @Locked.');
    }
    checkLockedOptions(`@LockDefaults on ${target.name}`, options);
    Reflect.defineMetadata(LOCK_DEFAULTS, options, target);
    if (options.name !== undefined) injectLockService(target.prototype as object, options.name);
  };
}

/** The options of one method of a concrete class: those of its `@Locked` over those of `@LockDefaults`. */
export function optionsOf(cls: object, own: LockedOptions): LockedOptions {
  const defaults = (Reflect.getMetadata(LOCK_DEFAULTS, cls) as LockedOptions | undefined) ?? {};
  const options: LockedOptions = overlay(defaults, own);
  return options.onBusy === 'skip' ? overlay({ waitMs: 0 }, options) : options;
}

/**
 * Checks the options of a `@Locked`.
 *
 * @param where the decorator and what it stands on: `@Locked on Orders.pay`
 * @param key what it locks; a template may have a claim that contradicts an option
 * @throws LockConfigurationError whose message begins with `where`
 */
export function checkLockedOptions(where: string, options: LockedOptions, key?: KeySite['key']): void {
  checkOptions(where, options, LOCKED_RULES);
  const call = { ...options, onBusy: busyOfCall(options.onBusy) };
  try {
    checkCallOptions(call);
    if (typeof key === 'object') for (const { claim } of key) checkCallOptions(withClaimOf(call, claim));
    resolveLockHttp(options.http);
  } catch (error) {
    if (!(error instanceof LockConfigurationError)) throw error;
    throw new LockConfigurationError(`${where}: ${error.message}`);
  }
}

/**
 * Picks the options that the service takes. Leaves out the undefined ones, so that the defaults of the service apply.
 *
 * @param where `GoodsController.purchase`, the `site` unless the options name another one
 */
export function callOptions(options: LockedOptions, where: string): CallOptions {
  const given = Object.entries({ ...options, onBusy: busyOfCall(options.onBusy) }).filter(
    ([name, value]) => Object.hasOwn(CALL_RULES.acquire, name) && value !== undefined,
  );
  return { site: where.slice(0, MAX_TEXT), ...Object.fromEntries(given) };
}

/** The option by which a call learns its place in line, if its clients are to get the place. */
export function askPlace(http: LockHttpOptions | undefined): Pick<CallOptions, 'onQueued'> {
  return http?.position ? { onQueued: () => undefined } : {};
}

/**
 * The `onBusy` to pass to the service. For `'skip'` and for a function the service gets `'throw'`, and `@Locked` handles its
 * error.
 */
function busyOfCall(onBusy: LockedOptions['onBusy']): CallOptions['onBusy'] {
  return onBusy === undefined || onBusy === 'takeover' ? onBusy : 'throw';
}
