import type { ExecutionContext } from '@nestjs/common';
import { Observable, isObservable, of, type Subscriber, type TeardownLogic } from 'rxjs';
import { andThen, isPromiseLike, type MaybePromise } from '../async-context/maybe-promise.js';
import { promiseOf } from '../async-context/promise-of.js';
import { mockError } from '../distributed-lock.tokens.js';
import type { HeldLock } from '../lock/core/held-lock.js';
import type { Keys } from '../lock/lock.js';
import type { LockService } from '../lock/lock.service.js';
import { isLockError, type LockWaitTimeoutError } from '../port/lock.errors.js';
import { answerTo } from './answers.js';
import { Departure } from './departure.js';
import type { KeyPlan } from './key-plan.js';
import type { BusyFallback, LockedOptions } from './locked.options.js';

/** What a call got: the lock, nothing where it needs none, or the answer of `onBusy` in place of the work. */
export type Acquired = { readonly lock?: HeldLock } | { readonly answer: unknown };

/** Gives at least as many arguments of the method as it is asked for. */
type ArgumentsFor = (count: number) => MaybePromise<readonly unknown[]>;

type FallBack = (onBusy: BusyFallback, busy: LockWaitTimeoutError) => unknown;

/** One call of a locked method, by Nest or by other code. */
export interface LockedCall {
  readonly plan: Pick<KeyPlan, 'options' | 'call' | 'where'>;
  readonly argsFor: ArgumentsFor;
  /** Calls `onBusy` in place of the method. */
  readonly fallBack: FallBack;
  readonly keys: () => MaybePromise<Keys>;
  readonly service: () => LockService;
}

/**
 * Acquires on subscription, and leaves the queue on teardown. After the grant `run` takes over the subscriber.
 *
 * @param errorFor gives or throws the error that the subscriber gets for one of `acquire`
 */
export function whenAcquired<T>(
  acquire: (departure: Departure) => MaybePromise<Acquired>,
  run: (lock: HeldLock | undefined, out: Subscriber<T>) => TeardownLogic,
  errorFor: (error: unknown) => unknown = (error) => error,
): Observable<T> {
  return new Observable<T>((out) => {
    const departure = new Departure();
    const start = (outcome: Acquired): void => {
      departure.end();
      if ('answer' in outcome) {
        const { answer } = outcome;
        out.add((isObservable(answer) ? (answer as Observable<T>) : of(answer as T)).subscribe(out));
      } else if (out.closed) {
        // The lock was granted while the subscriber left.
        outcome.lock?.releaseInBackground();
      } else {
        failing(() => out.add(run(outcome.lock, out)));
      }
    };
    const fail = (error: unknown): void => {
      departure.end();
      failing(() => out.error(errorFor(error)));
    };
    const failing = (work: () => void): void => {
      try {
        work();
      } catch (error) {
        out.error(error);
      }
    };
    out.add(() => departure.leave());
    let outcome: MaybePromise<Acquired>;
    try {
      outcome = acquire(departure);
    } catch (error) {
      return fail(error);
    }
    // Without a promise the grant is used in the turn in which it came.
    if (isPromiseLike(outcome)) outcome.then(start, fail);
    else start(outcome);
  });
}

/**
 * Acquires, unless `when` says that the call needs no lock. `onBusy` answers if the keys are not free. The call leaves the queue
 * by `departure`, or when the `signal` of its options or of the module aborts.
 */
export function acquireOrFallBack(call: LockedCall, departure: Departure): MaybePromise<Acquired> {
  const { options, where, call: callOptions } = call.plan;
  const acquire = (keys: Keys): Promise<HeldLock> => {
    const service = call.service();
    const signal = callOptions.signal ?? service.options.defaults.signal;
    if (signal) departure.follow(signal);
    // The service uses no more of a signal than a departure has, and each of its locks is a `HeldLock`.
    const leaving = { ...callOptions, signal: departure as unknown as AbortSignal };
    return service.acquire(keys, leaving) as Promise<HeldLock>;
  };
  const onGrant = (lock: Partial<HeldLock> | undefined): Acquired => {
    // A mock of `acquire` gives no holds. Not by `instanceof`: an application may load two copies of this package.
    if (Array.isArray(lock?.holds)) return { lock: lock as HeldLock };
    throw mockError(options.service, `@Locked on ${where}`, 'gave no lock');
  };
  const onRefusal = (error: unknown): MaybePromise<Acquired> =>
    andThen(busyAnswer(options, error, call.fallBack), (answer) => ({ answer }));
  return andThen(isNeeded(options, call.argsFor), (needed) => {
    if (!needed) return {};
    return andThen(call.keys(), (keys) => promiseOf(() => acquire(keys)).then(onGrant, onRefusal));
  });
}

export function isNeeded({ when }: LockedOptions, argsFor: ArgumentsFor): MaybePromise<boolean> {
  return !when || andThen(argsFor(when.length), (args) => Reflect.apply(when, undefined, args) as boolean);
}

/** The answer of `onBusy` to an error of acquiring. @throws the error, if `onBusy` is not for it */
export function busyAnswer(
  { onBusy = 'throw' }: LockedOptions,
  error: unknown,
  fallBack: FallBack,
): MaybePromise<unknown> {
  const isBusy = isLockError(error) && error.code === 'LOCK_WAIT_TIMEOUT';
  if (onBusy === 'throw' || onBusy === 'takeover' || !isBusy) throw error;
  return onBusy === 'skip' ? undefined : fallBack(onBusy, error as LockWaitTimeoutError);
}

/** What a guard got for its request. */
interface Early {
  readonly handler: unknown;
  readonly outcome: Acquired;
  stopListening?: (() => void) | undefined;
}

/**
 * What guards got, until the interceptor takes it over. One map for the process: a global interceptor is another instance than
 * the one that Nest makes for the method, whose guard has acquired.
 */
const SHARED = Symbol.for('nestjs-distributed-lock/early-admissions');
const shared = globalThis as { [SHARED]?: WeakMap<object, Early> };
const byRequest = (shared[SHARED] ??= new WeakMap<object, Early>());

/** Gives the lock back where the interceptor never runs: the client has left, or another interceptor has answered. */
export function keepAcquired(context: ExecutionContext, outcome: Acquired): void {
  const request = context.getArgByIndex<object>(0);
  const early: Early = { handler: context.getHandler(), outcome };
  byRequest.set(request, early);
  early.stopListening = answerTo(context)?.whenOver(() => {
    byRequest.delete(request);
    if ('lock' in outcome) outcome.lock?.releaseInBackground();
  });
}

export function takeAcquired(context: ExecutionContext): Acquired | undefined {
  const request = context.getArgByIndex<object>(0);
  const early = byRequest.get(request);
  if (early?.handler !== context.getHandler()) return undefined;
  byRequest.delete(request);
  early.stopListening?.();
  return early.outcome;
}
