import { isObservable, throwError, type Observable } from 'rxjs';
import { andThen, type MaybePromise } from '../async-context/maybe-promise.js';
import { promiseOf } from '../async-context/promise-of.js';
import { assertGenuine, injectedProperty, mockError } from '../distributed-lock.tokens.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { Keys, Lock } from '../lock/lock.js';
import type { HeldLock } from '../lock/core/held-lock.js';
import { assertHoldable, holdStream } from '../lock/streams/held-stream.js';
import type { LockService } from '../lock/lock.service.js';
import { runHolding } from '../lock/core/async-context.js';
import { outsideOfHandlers } from './handler-run.js';
import { acquireOrFallBack, busyAnswer, isNeeded, whenAcquired, type LockedCall } from './acquire.js';
import { fillSlots } from './current-lock.decorator.js';
import { Departure } from './departure.js';
import { runAsCalled } from './handler-flow.js';
import { KeyPlan } from './key-plan.js';
import { serviceOf } from './live-services.js';
import type { AnyClass, AnyFunction } from '../nest/metadata.js';
import { optionsOf, type LockedSite } from './locked-site.js';
import { UnderLock } from './under-lock.js';

/** One call of a method that is wrapped. */
export interface MethodCall {
  readonly site: LockedSite;
  /** The method below `@Locked`. */
  readonly original: AnyFunction;
  readonly self: unknown;
  readonly args: readonly unknown[];
}

/** One call of a locked method that no interceptor has acquired for. */
interface Call extends LockedCall {
  readonly plan: KeyPlan;
  readonly keys: () => Keys;
  /** Runs the method itself. */
  readonly run: (lock: Lock | undefined) => unknown;
}

/**
 * Calls a locked method as an ordinary one: acquires, runs it, releases.
 *
 * Returns a Promise, an Observable under `stream: true`, or an async generator for a method that is one. A stream that
 * the method returns holds the lock until it has ended.
 */
export function callLocked({
  site,
  original,
  self,
  args,
}: MethodCall): Promise<unknown> | Observable<unknown> | AsyncGenerator<unknown, unknown> {
  const callOf = (): Call => {
    const plan = KeyPlan.of(classOf(self, site), site);
    const run = (lock: Lock | undefined): unknown =>
      outsideOfHandlers(() => Reflect.apply(original, self, fillSlots(site, args, lock)));
    const service = serviceFor(self, plan);
    const [argsFor, keys] = [() => args, () => plan.keysOfCall(args)];
    const fallBack: Call['fallBack'] = (onBusy, busy) => Reflect.apply(onBusy, self, [busy, ...args]);
    return { plan, service: () => service, argsFor, fallBack, keys, run };
  };
  if (site.isGenerator) return generated(callOf);
  try {
    const call = callOf();
    if (call.plan.options.stream) return streamed(call);
    return runAsCalled({ self, site, where: call.plan.call.site }, () => promised(call));
  } catch (error) {
    const { stream } = optionsOf(classOf(self, site), site);
    return stream ? throwError(() => error) : Promise.reject(error as Error);
  }
}

function promised({ plan, service, argsFor, fallBack, keys, run }: Call): Promise<unknown> {
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
    if (!hasStarted) throw mockError(options.service, `@Locked on ${where}`, 'did not run the method');
    return result;
  };
  const onError = (error: unknown): MaybePromise<unknown> => {
    // An error of the method itself is not for `onBusy`, also when it is a lock error.
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

function streamed(call: Call): Observable<unknown> {
  const { plan, run } = call;
  return whenAcquired(
    (departure) => acquireOrFallBack(call, departure),
    (lock, out) => {
      if (!lock) return streamOf(plan, run(undefined)).subscribe(out);
      const underLock = new UnderLock(out, lock, { onLost: plan.options.onLost ?? 'throw' });
      underLock.streams();
      underLock.start((observer) => runHolding(lock, () => streamOf(plan, run(lock)).subscribe(observer)));
      return () => underLock.leave();
    },
  );
}

/** The reason for which an async generator leaves the queue when `return()` is called while it waits. */
const RETURNED = Symbol('returned');

/** Acquires when the first value is asked for, so that a generator that is never read holds nothing. */
function generated(callOf: () => Call): AsyncGenerator<unknown, unknown> {
  const departure = new Departure();
  const steps = stepsOf(callOf, departure);
  const end = steps.return.bind(steps);
  return Object.assign(steps, {
    return(value: unknown) {
      // A generator that waits for the lock could otherwise not end before the grant.
      departure.leave(RETURNED);
      return end(value);
    },
  });
}

async function* stepsOf(callOf: () => Call, departure: Departure): AsyncGenerator<unknown, unknown> {
  const call = callOf();
  const outcome = await promiseOf(() => acquireOrFallBack(call, departure)).catch((error: unknown) => {
    if (departure.reason === RETURNED) return undefined;
    throw error;
  });
  departure.end();
  if (!outcome) return undefined;
  if ('answer' in outcome) return yield* itemsOf(call, outcome.answer);
  const { lock } = outcome;
  if (!lock) return yield* call.run(undefined) as AsyncGenerator<unknown, unknown>;
  if (departure.reason === RETURNED) return lock.releaseInBackground();
  return yield* itemsUnder(lock, call);
}

function itemsUnder(lock: HeldLock, { plan, run }: Call): AsyncIterable<unknown> {
  try {
    lock.assertHeld();
    const held = holdStream(run(lock), lock, {
      where: plan.where,
      readBy: 'caller',
      onLost: plan.options.onLost,
      onEnd: () => lock.releaseInBackground(),
    });
    return held?.value as AsyncIterable<unknown>;
  } catch (error) {
    lock.releaseInBackground();
    throw error;
  }
}

/** The answer of `onBusy` in place of an async generator: another one, a list, or nothing. */
function itemsOf({ plan }: Call, answer: unknown): AsyncIterable<unknown> | Iterable<unknown> {
  if (answer === undefined) return [];
  if (typeof answer === 'object' && answer !== null) {
    if (Symbol.asyncIterator in answer || Symbol.iterator in answer) return answer as Iterable<unknown>;
  }
  throw new LockConfigurationError(
    `${plan.where}: its onBusy answers for an async generator, so it must give something to iterate.`,
  );
}

function streamOf({ where }: KeyPlan, result: unknown): Observable<unknown> {
  if (isObservable(result)) return result;
  throw new LockConfigurationError(`${where} returned no Observable: leave out stream of @Locked.`);
}

function classOf(self: unknown, { declaredIn }: LockedSite): AnyClass {
  const cls = typeof self === 'function' ? self : (self as object | undefined)?.constructor;
  return typeof cls === 'function' ? (cls as unknown as AnyClass) : declaredIn;
}

/** The service that Nest has injected; otherwise that of the application of the object. */
function serviceFor(self: unknown, { options: { service: name }, where }: KeyPlan): LockService {
  const injected = (self as Readonly<Record<symbol, LockService | undefined>> | undefined)?.[
    injectedProperty(name)
  ];
  if (!injected) return serviceOf(self, name ?? 'default', where);
  assertGenuine(injected, name, `@Locked on ${where}`);
  return injected;
}
