import type { ExecutionContext } from '@nestjs/common';
import { Observable, isObservable, of, type Subscriber, type TeardownLogic } from 'rxjs';
import { andThen, isPromiseLike, type MaybePromise } from '../async-context/maybe-promise.js';
import { promiseOf } from '../async-context/promise-of.js';
import { mockError } from '../distributed-lock.tokens.js';
import type { HeldLock } from '../lock/core/held-lock.js';
import type { CallOptions, Keys } from '../lock/lock.js';
import type { LockService } from '../lock/lock.service.js';
import { isLockError, type LockWaitTimeoutError } from '../port/lock.errors.js';
import { answerTo } from './answers.js';
import { Departure } from './departure.js';
import type { KeyPlan } from './key-plan.js';
import type { BusyFallback, LockedOptions } from './locked.options.js';

/** The lock, nothing where none is needed, or the answer in place of the work. */
export type Admission = { readonly lock?: HeldLock } | { readonly answer: unknown };

/** Gives at least as many arguments of the method as it is asked for. */
type ArgumentsFor = (count: number) => MaybePromise<readonly unknown[]>;

type FallBack = (onBusy: BusyFallback, busy: LockWaitTimeoutError) => unknown;

/** One call of a locked method that needs admission. */
export interface Applicant {
  readonly plan: Pick<KeyPlan, 'options' | 'call' | 'where'>;
  readonly argsFor: ArgumentsFor;
  /** Calls `onBusy` in place of the method. */
  readonly fallBack: FallBack;
  readonly keys: () => MaybePromise<Keys>;
  readonly service: () => LockService;
}

/**
 * Asks for admission on subscription, and leaves the queue on teardown. After the grant `run` takes over the subscriber.
 *
 * @param errorFor gives or throws the error that the subscriber gets for one of `admit`
 */
export function whenAdmitted<T>(
  admit: (departure: Departure) => MaybePromise<Admission>,
  run: (lock: HeldLock | undefined, out: Subscriber<T>) => TeardownLogic,
  errorFor: (error: unknown) => unknown = (error) => error,
): Observable<T> {
  return new Observable<T>((out) => {
    const departure = new Departure();
    const start = (admission: Admission): void => {
      departure.end();
      if ('answer' in admission) {
        const { answer } = admission;
        out.add((isObservable(answer) ? (answer as Observable<T>) : of(answer as T)).subscribe(out));
      } else if (out.closed) {
        // The lock was granted while the subscriber left.
        admission.lock?.releaseInBackground();
      } else {
        try {
          out.add(run(admission.lock, out));
        } catch (error) {
          out.error(error);
        }
      }
    };
    const fail = (error: unknown): void => {
      departure.end();
      try {
        out.error(errorFor(error));
      } catch (mistake) {
        out.error(mistake);
      }
    };
    out.add(() => departure.leave());
    settle(() => admit(departure), start, fail);
  });
}

/** Passes on the result of `work`: at once if it is there. */
function settle<T>(
  work: () => MaybePromise<T>,
  onValue: (value: T) => void,
  onError: (error: unknown) => void,
): void {
  let result: MaybePromise<T>;
  try {
    result = work();
  } catch (error) {
    return onError(error);
  }
  if (isPromiseLike(result)) result.then(onValue, onError);
  else onValue(result);
}

/** Acquires, unless `when` says that the call needs no lock. `onBusy` answers if the keys are not free. */
export function admit(call: Applicant, departure: Departure): MaybePromise<Admission> {
  const { options, where } = call.plan;
  const onGrant = (lock: HeldLock): Admission => {
    if (isHeldLock(lock)) return { lock };
    throw mockError(options.service, `@Locked on ${where}`, 'gave no lock');
  };
  const onRefusal = (error: unknown): MaybePromise<Admission> =>
    andThen(busyAnswer(options, error, call.fallBack), (answer) => ({ answer }));
  return andThen(isNeeded(options, call.argsFor), (needed) => {
    if (!needed) return {};
    return andThen(call.keys(), (keys) =>
      promiseOf(() => acquireFor(departure, call.service(), keys, call.plan.call)).then(onGrant, onRefusal),
    );
  });
}

/** False for what a mock of `acquire` gives. Not by `instanceof`: an application may load two copies of this package. */
function isHeldLock(lock: Partial<HeldLock> | undefined): boolean {
  return Array.isArray(lock?.holds);
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

/** Acquires for a call that leaves the queue by `departure`, or when the `signal` of its options or of the module aborts. */
export function acquireFor(
  departure: Departure,
  service: LockService,
  keys: Keys,
  call: CallOptions,
): Promise<HeldLock> {
  const signal = call.signal ?? service.options.defaults.signal;
  if (signal) departure.follow(signal);
  // The service uses no more of a signal than a departure has, and each of its locks is a `HeldLock`.
  return service.acquire(keys, { ...call, signal: departure as unknown as AbortSignal }) as Promise<HeldLock>;
}

interface Early {
  readonly handler: unknown;
  readonly admission: Admission;
  stopListening?: (() => void) | undefined;
}

/**
 * Admissions that guards have got for their requests, until the interceptor takes them over. One map for the process: a
 * global interceptor is another instance than the one that Nest makes for the method, whose guard has acquired.
 */
const SHARED = Symbol.for('nestjs-distributed-lock/early-admissions');
const shared = globalThis as { [SHARED]?: WeakMap<object, Early> };
const byRequest = (shared[SHARED] ??= new WeakMap<object, Early>());

/** Gives the lock back where the interceptor never runs: the client has left, or another interceptor has answered. */
export function keepAdmission(context: ExecutionContext, admission: Admission): void {
  const request = context.getArgByIndex<object>(0);
  const early: Early = { handler: context.getHandler(), admission };
  byRequest.set(request, early);
  early.stopListening = answerTo(context)?.whenOver(() => {
    byRequest.delete(request);
    if ('lock' in admission) admission.lock?.releaseInBackground();
  });
}

export function takeAdmission(context: ExecutionContext): Admission | undefined {
  const request = context.getArgByIndex<object>(0);
  const early = byRequest.get(request);
  if (early?.handler !== context.getHandler()) return undefined;
  byRequest.delete(request);
  early.stopListening?.();
  return early.admission;
}
