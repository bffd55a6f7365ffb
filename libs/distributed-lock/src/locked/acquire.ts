// How one call of a locked method acquires its lock: asks `when`, makes the keys, waits, and asks `onBusy` if they do not come
// free. The interceptor calls it for a request, `callLocked` for any other call.
import { isObservable, type Observable, of, type Subscriber, type TeardownLogic } from 'rxjs';
import { onAbort } from '../common/listeners.js';
import { andThen, isPromiseLike, type MaybePromise, promiseOf } from '../common/promises.js';
import { mockError } from '../distributed-lock.tokens.js';
import type { CallKeys } from '../keys/key-plan.js';
import type { HeldLock } from '../lock/core/held-lock.js';
import type { LockService } from '../lock/lock.service.js';
import type { Keys } from '../lock/request/key-claim.js';
import { isLockError, type LockWaitTimeoutError } from '../port/lock.errors.js';
import type { LockPlan } from './lock-plan.js';
import { askPlace, type BusyFallback, type LockedOptions } from './locked.options.js';

/** The outcome of a call: its `Granted`, or the answer that `onBusy` returned in place of the method. */
export type Acquired = Granted | { readonly answer: unknown };

export interface Granted {
  /** `undefined` if `when` said that the call needs no lock. */
  readonly lock?: HeldLock;
  /** For a request: the values from which its keys were made. */
  readonly values?: CallKeys['values'];
}

/** One call of a locked method, by Nest or by other code. */
export interface LockedCall {
  readonly plan: Pick<LockPlan, 'options' | 'call' | 'where'>;
  /** Returns the arguments of the method: the first `count`, or more. */
  readonly argsFor: (count: number) => MaybePromise<readonly unknown[]>;
  /** Calls `onBusy` in place of the method. */
  readonly fallBack: (onBusy: BusyFallback, busy: LockWaitTimeoutError) => unknown;
  readonly keys: () => MaybePromise<CallKeys>;
  readonly service: LockService;
}

/**
 * Acquires the lock for a subscriber, and then calls `run` to serve the subscriber. If the subscriber unsubscribes while the call
 * waits, the call leaves the queue.
 */
export function acquireFor<T>(out: Subscriber<T>, { acquire, run, errorFor }: SubscriberSteps<T>): void {
  const cancellation = new WaitCancellation();
  out.add(() => cancellation.cancel());
  const endWait = (next: () => void): void => {
    cancellation.end();
    try {
      next();
    } catch (error) {
      out.error(error);
    }
  };
  const onAcquired = (acquired: Acquired): void =>
    endWait(() => {
      if ('answer' in acquired) {
        const { answer } = acquired;
        out.add((isObservable(answer) ? (answer as Observable<T>) : of(answer as T)).subscribe(out));
      } else if (out.closed) {
        // The subscriber left in the same moment as the lock was granted, so nobody would release it.
        acquired.lock?.releaseInBackground();
      } else {
        out.add(run(acquired, out));
      }
    });
  const onFailed = (error: unknown): void => endWait(() => out.error(errorFor ? errorFor(error) : error));
  try {
    const acquired = acquire(cancellation);
    // If `acquire` returned no promise, the work starts in the same turn of the event loop as the grant.
    if (isPromiseLike(acquired)) acquired.then(onAcquired, onFailed);
    else onAcquired(acquired);
  } catch (error) {
    onFailed(error);
  }
}

interface SubscriberSteps<T> {
  readonly acquire: (cancellation: WaitCancellation) => MaybePromise<Acquired>;
  readonly run: (acquired: Granted, out: Subscriber<T>) => TeardownLogic;
  /** Makes the error for the subscriber from an error of `acquire`, or throws it. */
  readonly errorFor?: (error: unknown) => unknown;
}

/**
 * Acquires the lock of a call, unless `when` says that the call needs none. If the keys are not free in time, calls `onBusy`. The
 * call leaves the queue when `cancellation` cancels its wait, or when the `signal` of its options or of the module aborts.
 */
export function acquireOrFallBack(call: LockedCall, cancellation: WaitCancellation): MaybePromise<Acquired> {
  const { service } = call;
  const { options, where, call: callOptions } = call.plan;
  const acquire = (keys: Keys): Promise<HeldLock> => {
    const { defaults } = service.options;
    const signal = callOptions.signal ?? defaults.signal;
    if (signal) cancellation.follow(signal);
    // The first cast is safe because the service uses only those members of a signal that `WaitCancellation` has, the second
    // because each lock of a service is a `HeldLock`.
    const place = defaults.onQueued ? {} : askPlace(options.http);
    const cancellable = { ...place, ...callOptions, signal: cancellation as unknown as AbortSignal };
    return service.acquire(keys, cancellable) as Promise<HeldLock>;
  };
  const onRefusal = (error: unknown): MaybePromise<Acquired> =>
    andThen(busyAnswer(options, error, call.fallBack), (answer) => ({ answer }));
  return andThen(isNeeded(options, call.argsFor), (needed) => {
    if (!needed) return {};
    return andThen(call.keys(), ({ keys, values }) =>
      promiseOf(() => acquire(keys)).then((lock: Partial<HeldLock> | undefined): Acquired => {
        // A lock without `holds` comes from a mock of `acquire`, and would protect nothing. Not checked by `instanceof`, because
        // an application may load two copies of this package.
        if (Array.isArray(lock?.holds)) return { lock: lock as HeldLock, values };
        throw mockError(options.name, `@Locked on ${where}`, 'gave no lock');
      }, onRefusal),
    );
  });
}

export function isNeeded({ when }: LockedOptions, argsFor: LockedCall['argsFor']): MaybePromise<boolean> {
  return !when || andThen(argsFor(when.length), (args) => Reflect.apply(when, undefined, args) as boolean);
}

/**
 * Returns what `onBusy` answers to a call whose wait ran out.
 *
 * @throws `error` itself if `onBusy` has no answer to it, or if it is not a timeout of the wait
 */
export function busyAnswer(
  { onBusy = 'throw' }: LockedOptions,
  error: unknown,
  fallBack: LockedCall['fallBack'],
): MaybePromise<unknown> {
  const isBusy = isLockError(error, 'LOCK_WAIT_TIMEOUT');
  if (onBusy === 'throw' || onBusy === 'takeover' || !isBusy) throw error;
  return onBusy === 'skip' ? undefined : fallBack(onBusy, error);
}

/**
 * Cancels the wait of one call. It stands in for an AbortSignal, and has only those members of one that a wait uses.
 *
 * An AbortController would cost each request 5 µs on Node 20 to create and to listen to, although hardly any request leaves the
 * queue early (`npm run bench -- --only http`).
 */
export class WaitCancellation {
  aborted = false;
  reason: unknown;
  private isOver = false;
  private readonly listeners = new Set<() => void>();
  private readonly undos: (() => void)[] = [];

  /**
   * Makes the call leave the queue. Does nothing after the wait.
   *
   * @param reason default: the same AbortError as that of an AbortController
   */
  cancel(reason?: unknown): void {
    if (this.isOver) return;
    this.end();
    this.aborted = true;
    this.reason = reason ?? new DOMException('This operation was aborted', 'AbortError');
    for (const listener of this.listeners) listener();
  }

  /** Cancels the wait with the reason of `other` as soon as that signal aborts. */
  follow(other: AbortSignal): void {
    if (other.aborted) return this.cancel(other.reason);
    this.whenOver(onAbort(other, () => this.cancel(other.reason)));
  }

  /** Calls `undo` when the wait ends, or at once if it has ended already. For removing listeners. */
  whenOver(undo: () => void): void {
    if (this.isOver) undo();
    else this.undos.push(undo);
  }

  /** Called when the wait has ended, with or without a lock. */
  end(): void {
    this.isOver = true;
    for (const undo of this.undos.splice(0)) undo();
  }

  onAbort(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  }
}
