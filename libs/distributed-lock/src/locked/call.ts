// Plain calls of locked methods: by other code, by schedulers and by workers. No interceptor acquires the lock for them, so the
// wrapper of `@Locked` comes here.
import { isObservable, Observable, throwError } from 'rxjs';
import { andThen, type MaybePromise, promiseOf } from '../common/promises.js';
import { mockError } from '../distributed-lock.tokens.js';
import type { CallKeys } from '../keys/key-plan.js';
import { currentFlow, runFor, runHolding } from '../lock/core/async-context.js';
import type { HeldLock } from '../lock/core/held-lock.js';
import type { Lock } from '../lock/lock.js';
import { assertHoldable, holdStream } from '../lock/streams/held-stream.js';
import type { AnyClass } from '../nest/metadata.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { acquireFor, acquireOrFallBack, busyAnswer, isNeeded, WaitCancellation } from './acquire.js';
import type { LockedCall } from './acquire.js';
import { runAsCalled } from './handler-flow.js';
import { type LockedSite, type LockPlan, lockPlanOf } from './lock-plan.js';
import { optionsOf } from './locked.options.js';
import { serviceOf } from './registrations.js';
import { UnderLock } from './under-lock.js';

/** One call of the wrapper that `@Locked` put in place of a method. */
interface MethodCall {
  readonly site: LockedSite;
  readonly self: unknown;
  readonly args: readonly unknown[];
  /** Calls the original method. */
  readonly run: (lock: Lock | undefined) => unknown;
}

interface PlainCall extends LockedCall, Pick<MethodCall, 'run'> {
  readonly plan: LockPlan;
  readonly keys: () => CallKeys;
}

/**
 * Serves a plain call of a locked method: acquires the lock, calls the method, releases.
 *
 * Returns a Promise, an Observable if the option `stream` is set, or an async generator if the method is one. If the method
 * returns a stream, the lock is held until the stream has ended.
 */
export function callLocked(
  call: MethodCall,
): Promise<unknown> | Observable<unknown> | AsyncGenerator<unknown, unknown> {
  const { site, self } = call;
  if (site.isGenerator) return generated(call);
  const cls = classOf(self, site);
  try {
    const plain = plainCall(call, cls);
    const { plan } = plain;
    if (plan.options.stream) return streamed(plain);
    return runAsCalled(self, plan, () => promised(plain));
  } catch (error) {
    const { stream } = optionsOf(cls, site.options);
    return stream ? throwError(() => error) : Promise.reject(error as Error);
  }
}

function plainCall({ site, self, args, run }: MethodCall, cls = classOf(self, site)): PlainCall {
  const plan = lockPlanOf(cls, site);
  return {
    plan,
    service: serviceOf(self, plan),
    argsFor: () => args,
    fallBack: (onBusy, busy) => Reflect.apply(onBusy, self, [busy, ...args]) as unknown,
    keys: () => ({ keys: plan.keysOfCall(args) }),
    // The caller may be a locked handler, whose run is stored in the async flow. Call the method without that run. Otherwise a
    // call of the handler by this method would be taken for Nest's own call, which has the lock already.
    run: (lock) => (currentFlow()?.handlerRun ? runFor(undefined, () => run(lock)) : run(lock)),
  };
}

function promised({ plan, service, argsFor, fallBack, keys, run }: PlainCall): Promise<unknown> {
  const { options, where } = plan;
  const check = (result: unknown): unknown => {
    assertHoldable(result, { where, readBy: 'caller' });
    return result;
  };
  let hasStarted = false;
  const start = (lock: Lock): MaybePromise<unknown> => {
    hasStarted = true;
    return andThen(run(lock), check);
  };
  const onResult = (result: unknown): unknown => {
    if (!hasStarted) throw mockError(options.name, `@Locked on ${where}`, 'did not run the method');
    return result;
  };
  const onError = (error: unknown): MaybePromise<unknown> => {
    // An error of the method itself never goes to `onBusy`, even if it is a lock error.
    if (hasStarted) throw error;
    return busyAnswer(options, error, fallBack);
  };
  const locked = () => service.withLock(keys().keys, { ...plan.call, onLost: plan.onLost }, start);
  return promiseOf(() =>
    andThen(isNeeded(options, argsFor), (needed) =>
      needed ? promiseOf(locked).then(onResult, onError) : andThen(run(undefined), check),
    ),
  );
}

function streamed(call: PlainCall): Observable<unknown> {
  const { plan, run } = call;
  const start = (lock: Lock | undefined): Observable<unknown> => {
    const result = run(lock);
    if (isObservable(result)) return result;
    throw new LockConfigurationError(`${plan.where} returned no Observable: leave out stream of @Locked.`);
  };
  return new Observable((out) =>
    acquireFor(out, {
      acquire: (cancellation) => acquireOrFallBack(call, cancellation),
      run({ lock }) {
        if (!lock) return start(undefined).subscribe(out);
        const underLock = new UnderLock(out, lock, { onLost: plan.onLost });
        underLock.streams();
        return underLock.start((observer) => runHolding(lock, () => start(lock).subscribe(observer)));
      },
    }),
  );
}

/** The reason with which an async generator leaves the queue if somebody calls its `return()` while it waits for the lock. */
const RETURNED = Symbol('returned');

/** Returns an async generator that acquires the lock when the first value is requested. If nobody reads it, it holds nothing. */
function generated(call: MethodCall): AsyncGenerator<unknown, unknown> {
  const cancellation = new WaitCancellation();
  const steps = stepsOf(call, cancellation);
  const end = steps.return.bind(steps);
  return Object.assign(steps, {
    return(value: unknown) {
      // Leave the queue first. Otherwise `return()` would have to wait for the grant.
      cancellation.cancel(RETURNED);
      return end(value);
    },
  });
}

async function* stepsOf(
  methodCall: MethodCall,
  cancellation: WaitCancellation,
): AsyncGenerator<unknown, unknown> {
  const call = plainCall(methodCall);
  const { plan, run } = call;
  const acquired = await promiseOf(() => acquireOrFallBack(call, cancellation)).catch((error: unknown) => {
    if (cancellation.reason === RETURNED) return undefined;
    throw error;
  });
  cancellation.end();
  if (!acquired) return undefined;
  if ('answer' in acquired) return yield* itemsOf(plan, acquired.answer);
  const { lock } = acquired;
  if (!lock) return yield* run(undefined) as AsyncGenerator<unknown, unknown>;
  if (cancellation.reason === RETURNED) return lock.releaseInBackground();
  return yield* itemsUnder(lock, call);
}

function itemsUnder(lock: HeldLock, { plan, run }: PlainCall): AsyncIterable<unknown> {
  try {
    lock.assertHeld();
    const stream = holdStream(run(lock), lock, {
      where: plan.where,
      readBy: 'caller',
      onLost: plan.onLost,
      onEnd: () => lock.releaseInBackground(),
    });
    return stream?.value as AsyncIterable<unknown>;
  } catch (error) {
    lock.releaseInBackground();
    throw error;
  }
}

/** Returns the values for the async generator to yield if the lock was busy: those that `onBusy` returned as an iterable, or none. */
function itemsOf({ where }: LockPlan, answer: unknown): AsyncIterable<unknown> | Iterable<unknown> {
  if (answer === undefined) return [];
  if (typeof answer === 'object' && answer !== null) {
    if (Symbol.asyncIterator in answer || Symbol.iterator in answer) return answer as Iterable<unknown>;
  }
  throw new LockConfigurationError(
    `${where}: its onBusy answers for an async generator, so it must give something to iterate.`,
  );
}

function classOf(self: unknown, { declaredIn }: LockedSite): AnyClass {
  const cls = typeof self === 'function' ? self : (self as object | undefined)?.constructor;
  return typeof cls === 'function' ? (cls as unknown as AnyClass) : declaredIn;
}
