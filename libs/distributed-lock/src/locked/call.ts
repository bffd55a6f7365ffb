// Plain calls of locked methods: calls by other code, by schedulers and by workers. No interceptor acquires the lock for them, so
// the wrapper does.
import type { DiscoveryService } from '@nestjs/core';
import { isObservable, Observable, throwError } from 'rxjs';
import { andThen, type MaybePromise, promiseOf } from '../common/promises.js';
import { importOf, injectedProperty, mockError } from '../distributed-lock.tokens.js';
import { currentFlow, runFor, runHolding } from '../lock/core/async-context.js';
import type { HeldLock } from '../lock/core/held-lock.js';
import { ServiceInternals } from '../lock/events/service-internals.js';
import type { Lock } from '../lock/lock.js';
import type { LockService } from '../lock/lock.service.js';
import type { Keys } from '../lock/request/key-claim.js';
import { assertHoldable, holdStream } from '../lock/streams/held-stream.js';
import type { AnyClass } from '../nest/metadata.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { acquireFor, acquireOrFallBack, busyAnswer, isNeeded, WaitCancellation } from './acquire.js';
import type { LockedCall } from './acquire.js';
import { runAsCalled } from './handler-flow.js';
import { UnderLock } from './handler-run.js';
import { type LockedSite, type LockPlan, lockPlanOf } from './lock-plan.js';
import { optionsOf } from './locked.options.js';

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
  readonly keys: () => { readonly keys: Keys };
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
  const locked = () => service.withLock(keys().keys, { ...plan.call, onLost: options.onLost }, start);
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
  return new Observable((out) =>
    acquireFor(out, {
      acquire: (cancellation) => acquireOrFallBack(call, cancellation),
      run({ lock }) {
        if (!lock) return start(undefined).subscribe(out);
        const underLock = new UnderLock(out, lock, { onLost: options.onLost ?? 'throw' });
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
      onLost: plan.options.onLost,
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

/**
 * All registrations of all applications in this process, shared with another copy of this package. Held by `WeakRef`, because
 * Nest calls no hook of an application whose boot has failed, so nothing would remove it.
 */
const SHARED = Symbol.for('nestjs-distributed-lock/registrations');
const shared = globalThis as { [SHARED]?: Set<WeakRef<Registration>> };
const registrationRefs = (shared[SHARED] ??= new Set<WeakRef<Registration>>());

/** One registration of the module in one application. */
export class Registration {
  /** True from the end of a successful boot to the shutdown. */
  isRunning = false;

  constructor(
    readonly service: LockService,
    private readonly discovery: DiscoveryService,
  ) {
    registrationRefs.add(new WeakRef(this));
  }

  /** True if the object is a provider of this application, be it an instance, a value or the result of a factory. */
  owns(object: unknown): boolean {
    if (typeof object !== 'object' || object === null) return false;
    const instances: unknown[] = this.discovery.getProviders().map(({ instance }) => instance as unknown);
    return isAmong(instances, object);
  }
}

/**
 * Finds the service for an object: the one that Nest has injected into it, or else that of the application to which the object
 * belongs, or else that of the only running application.
 *
 * @throws LockConfigurationError if there is no such application or more than one, because a locked method never runs unlocked
 */
function serviceOf(self: unknown, { options: { name }, where }: LockPlan): LockService {
  const injected = (self as Readonly<Record<symbol, LockService | undefined>> | undefined)?.[
    injectedProperty(name)
  ];
  if (injected) {
    if (!ServiceInternals.areIn(injected)) throw mockError(name, `@Locked on ${where}`, 'is a mock');
    return injected;
  }
  const registrations = allRegistrations().filter(({ service }) => service.name === (name ?? 'default'));
  const owner = registrations.find((it) => it.owns(self));
  if (owner) return owner.service;
  const running = registrations.filter((it) => it.isRunning);
  const [only] = running;
  if (only && running.length === 1) return only.service;
  const options = name === undefined || name === 'default' ? '' : `{ name: '${name}' }`;
  throw new LockConfigurationError(
    `@Locked on ${where}: ${noServiceText(name, { registered: registrations.length, running: running.length })} Nest injects the locks after the constructor, so a provider calls the method in onModuleInit() or later. In a unit test without a module import TestLocks from nestjs-distributed-lock/testing, and write new TestLocks(${options}).injectInto(…) around the object.`,
  );
}

/** Why there is no service for an object, and what to do. */
function noServiceText(
  name: string | undefined,
  count: { readonly registered: number; readonly running: number },
): string {
  if (count.running > 1) {
    return 'several applications of this process offer locks, and this object is a provider of none of them. Make it a provider.';
  }
  return count.registered > 0
    ? 'no running application offers locks: the one that does has not started yet, or is closed, and this object is no provider of it. Make it a provider, or call it between the start and the end of the application.'
    : `no running application offers locks. Import ${importOf(name)}, and call it between the start and the end of the application.`;
}

function allRegistrations(): readonly Registration[] {
  return [...registrationRefs].flatMap((ref) => {
    const registration = ref.deref();
    if (!registration) registrationRefs.delete(ref);
    return registration ?? [];
  });
}

/**
 * True if one of `others` is `object`, a Proxy of it, or the target of it.
 *
 * Nest's `instanceDecorator` wraps providers, so that `this` of a method may be the Proxy or its target. The two differ
 * by `===`, but a property that is written through one is read through the other.
 */
export function isAmong(others: readonly unknown[], object: object): boolean {
  if (others.includes(object)) return true;
  const mark = Symbol('nestjs-distributed-lock/same-object');
  if (!Reflect.defineProperty(object, mark, { value: true, configurable: true })) return false;
  try {
    return others.some((other) => has(other, mark));
  } finally {
    Reflect.deleteProperty(object, mark);
  }
}

function has(object: unknown, mark: symbol): boolean {
  if (typeof object !== 'object' || object === null) return false;
  try {
    return Object.hasOwn(object, mark);
  } catch {
    // Some Proxies throw here, such as those that only work during a request.
    return false;
  }
}
