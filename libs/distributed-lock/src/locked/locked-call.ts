import { isObservable, type Observable } from 'rxjs';
import { injectedProperty } from '../distributed-lock.tokens.js';
import { LockConfigurationError } from '../lock/lock.errors.js';
import type { Lock } from '../lock/lock.js';
import type { LockService } from '../lock/lock.service.js';
import { runHolding } from '../lock/owner-context.js';
import { withoutActivation } from './activation.js';
import { acquireFor, answersBusy, busyAnswer } from './busy-answer.js';
import { fillSlots } from './current-lock.decorator.js';
import type { Departure } from './departure.js';
import { KeyPlan } from './key-plan.js';
import { serviceOf } from './live-services.js';
import type { AnyClass, AnyFunction, LockedSite } from './locked-site.js';
import { UnderLock, whenAdmitted, type Admission } from './under-lock.js';

/** One call of a locked method that no interceptor has acquired for. */
interface Call {
  readonly plan: KeyPlan;
  readonly service: LockService;
  readonly self: unknown;
  readonly args: readonly unknown[];
  /** Runs the method itself. */
  readonly run: (lock: Lock | undefined) => unknown;
}

/**
 * Calls a locked method as an ordinary one: acquires, runs it, releases.
 *
 * Answers with a Promise whatever the method does, or with an Observable under `stream: true`.
 */
export function callLocked(
  site: LockedSite,
  original: AnyFunction,
  self: unknown,
  args: readonly unknown[],
): Promise<unknown> | Observable<unknown> {
  try {
    const plan = KeyPlan.of(classOf(self, site), site);
    const run = (lock: Lock | undefined): unknown =>
      withoutActivation(() => Reflect.apply(original, self, fillSlots(site, args, lock)));
    const call = { plan, service: serviceFor(self, plan), self, args, run };
    return plan.options.stream ? streamed(call) : promised(call);
  } catch (error) {
    return Promise.reject(error as Error);
  }
}

async function promised({ plan, service, self, args, run }: Call): Promise<unknown> {
  if (!(await isNeeded(plan, args))) return noStream(plan, await run(undefined));
  const { options } = plan;
  let hasStarted = false;
  const work = async (lock: Lock): Promise<unknown> => {
    hasStarted = true;
    return noStream(plan, await run(lock));
  };
  try {
    return await service.withLock(plan.keysOfCall(args), { ...plan.call, onLost: options.onLost }, work);
  } catch (error) {
    // What the method throws is its own, also when it is a lock error.
    if (hasStarted || !answersBusy(options, error)) throw error;
    return busyAnswer(options, error, self, args);
  }
}

function streamed({ plan, service, self, args, run }: Call): Observable<unknown> {
  const { options } = plan;
  const admit = async (departure: Departure): Promise<Admission> => {
    if (!(await isNeeded(plan, args))) return {};
    try {
      return { lock: await acquireFor(departure, service, plan.keysOfCall(args), plan.call) };
    } catch (error) {
      if (!answersBusy(options, error)) throw error;
      return { answer: await busyAnswer(options, error, self, args) };
    }
  };
  return whenAdmitted(admit, (lock, out) => {
    if (!lock) return streamOf(plan, run(undefined)).subscribe(out);
    const underLock = new UnderLock(out, lock, {
      onLost: options.onLost ?? 'throw',
      lossFor: (error) => error,
    });
    underLock.streams();
    underLock.start({
      subscribe: (observer) => runHolding(lock, () => streamOf(plan, run(lock)).subscribe(observer)),
      isRunning: () => false,
      close: () => undefined,
    });
    return () => underLock.leave();
  });
}

async function isNeeded({ options: { when } }: KeyPlan, args: readonly unknown[]): Promise<boolean> {
  return !when || (await Reflect.apply(when, undefined, args));
}

function noStream({ where }: KeyPlan, result: unknown): unknown {
  if (!isObservable(result)) return result;
  throw new LockConfigurationError(
    `${where} returned an Observable, which would outlive its lock: use @Locked(…, { stream: true }).`,
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

/** What Nest has injected; otherwise that of the application that the object belongs to. */
function serviceFor(self: unknown, { options: { service: name }, where }: KeyPlan): LockService {
  const injected = (self as Readonly<Record<symbol, LockService | undefined>> | undefined)?.[
    injectedProperty(name)
  ];
  return injected ?? serviceOf(self, name ?? 'default', where);
}
