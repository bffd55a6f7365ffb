// Plain calls of locked methods: calls by other code, by schedulers and by workers. No interceptor acquires the lock for them, so
// the wrapper does.
import { isObservable, type Observable, throwError } from 'rxjs';
import { andThen, type MaybePromise, promiseOf } from '../common/promises.js';
import { injectedProperty, mockError } from '../distributed-lock.tokens.js';
import { currentFlow, runFor, runHolding } from '../lock/core/async-context.js';
import type { HeldLock } from '../lock/core/hold.js';
import { ServiceInternals } from '../lock/events/service-internals.js';
import type { Keys, Lock } from '../lock/lock.js';
import type { LockService } from '../lock/lock.service.js';
import { assertHoldable, holdStream } from '../lock/streams/held-stream.js';
import type { AnyClass, AnyFunction } from '../nest/metadata.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { acquireOrFallBack, busyAnswer, isNeeded, WaitCancellation, whenAcquired } from './acquire.js';
import type { LockedCall } from './acquire.js';
import { fillSlots } from './current-lock.decorator.js';
import { runAsCalled } from './handler-flow.js';
import { UnderLock } from './handler-run.js';
import { KeyPlan } from './key-plan.js';
import { serviceOf } from './live-services.js';
import { type LockedSite, optionsOf } from './locked.options.js';

/** One call of the wrapper that `@Locked` put in place of a method. */
export interface MethodCall {
  readonly site: LockedSite;
  /** The method itself, as it was below `@Locked`. */
  readonly original: AnyFunction;
  readonly self: unknown;
  readonly args: readonly unknown[];
}

interface PlainCall extends LockedCall {
  readonly plan: KeyPlan;
  readonly keys: () => Keys;
  /** Calls the method itself. */
  readonly run: (lock: Lock | undefined) => unknown;
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
    if (plain.plan.options.stream) return streamed(plain);
    return runAsCalled({ self, site, where: plain.plan.call.site }, () => promised(plain));
  } catch (error) {
    const { stream } = optionsOf(cls, site.options);
    return stream ? throwError(() => error) : Promise.reject(error as Error);
  }
}

function plainCall({ site, original, self, args }: MethodCall, cls = classOf(self, site)): PlainCall {
  const plan = KeyPlan.of(cls, site);
  const service = serviceFor(self, plan);
  const run = (lock: Lock | undefined): unknown => {
    const work = () => Reflect.apply(original, self, fillSlots(site, args, lock)) as unknown;
    // The caller may be a locked handler, whose run is stored in the async flow. Leave that run: if this method calls the
    // handler, that call must not pass for Nest's own call, which has the lock already.
    return currentFlow()?.handlerRun ? runFor(undefined, work) : work();
  };
  return {
    plan,
    service: () => service,
    argsFor: () => args,
    fallBack: (onBusy, busy) => Reflect.apply(onBusy, self, [busy, ...args]) as unknown,
    keys: () => plan.keysOfCall(args),
    run,
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
  const locked = () => service().withLock(keys(), { ...plan.call, onLost: options.onLost }, start);
  return promiseOf(() =>
    andThen(isNeeded(options, argsFor), (needed) =>
      needed ? promiseOf(locked).then(onResult, onError) : andThen(run(undefined), check),
    ),
  );
}

function streamed(call: PlainCall): Observable<unknown> {
  const { run } = call;
  const { options, where } = call.plan;
  const start = (lock: Lock | undefined): Observable<unknown> => {
    const result = run(lock);
    if (isObservable(result)) return result;
    throw new LockConfigurationError(`${where} returned no Observable: leave out stream of @Locked.`);
  };
  return whenAcquired(
    (cancellation) => acquireOrFallBack(call, cancellation),
    (lock, out) => {
      if (!lock) return start(undefined).subscribe(out);
      const underLock = new UnderLock(out, lock, { onLost: options.onLost ?? 'throw' });
      underLock.streams();
      underLock.start((observer) => runHolding(lock, () => start(lock).subscribe(observer)));
      return () => underLock.leave();
    },
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
      onLost: plan.options.onLost,
      onEnd: () => lock.releaseInBackground(),
    });
    return stream?.value as AsyncIterable<unknown>;
  } catch (error) {
    lock.releaseInBackground();
    throw error;
  }
}

/** What the async generator yields if the lock was busy: the values that `onBusy` returned as an iterable, or none. */
function itemsOf({ where }: KeyPlan, answer: unknown): AsyncIterable<unknown> | Iterable<unknown> {
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

/** The service that Nest has injected into the object, or else the service of the application to which the object belongs. */
function serviceFor(self: unknown, { options: { name }, where }: KeyPlan): LockService {
  const injected = (self as Readonly<Record<symbol, LockService | undefined>> | undefined)?.[
    injectedProperty(name)
  ];
  if (!injected) return serviceOf(self, name ?? 'default', where);
  if (!ServiceInternals.areIn(injected)) throw mockError(name, `@Locked on ${where}`, 'is a mock');
  return injected;
}
