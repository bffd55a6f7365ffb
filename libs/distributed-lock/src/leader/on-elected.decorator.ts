import { Inject, Optional } from '@nestjs/common';
import type { DiscoveryService } from '@nestjs/core';
import { discoveredClasses, methodsOf, refuseStandard, wrapMethod } from '../nest/metadata.js';
import type { AnyClass, AnyFunction } from '../nest/metadata.js';
import { ParameterSlots } from '../nest/parameter-names.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { LeaderTerm } from './candidate.js';
import { checkLeaderName, LEADERS, type Term } from './leader.js';
import type { Leaders } from './leaders.js';

/** One use of `@OnElected` or `@OnDemoted` on a method. */
interface TermMark {
  readonly decorator: '@OnElected' | '@OnDemoted';
  /** `undefined`: the only leader of the application. */
  readonly name: string | undefined;
}

type TermDecorator = <M extends (term: Term) => unknown>(
  target: object,
  method: string | symbol,
  descriptor: TypedPropertyDescriptor<M>,
) => void;

const MARKS = Symbol.for('nestjs-distributed-lock/leader-marks');

/**
 * Classes with `@OnElected` or `@OnDemoted` methods, including those of another build of this package. Held by `WeakRef`, because test
 * runners load the same classes again and again.
 */
const CLASSES = Symbol.for('nestjs-distributed-lock/leader-classes');
const shared = globalThis as { [CLASSES]?: Set<WeakRef<AnyClass>> };
const classes = (shared[CLASSES] ??= new Set<WeakRef<AnyClass>>());

/**
 * Calls the method of a provider with the `Term` when this instance is elected. The method may return at once, or work until
 * `term.signal` aborts. It runs in an async flow that holds the lock of the leader.
 *
 * When the term is over, the lock is released as soon as the method has ended, and after `shutdownGraceMs` of the registration at the
 * latest. This instance is not elected again before the method has ended.
 *
 * If the method fails, this instance steps down. The error becomes an `error` event, which is logged, and this instance stands again
 * after a pause, 1 s at first and 30 s at most. It is no failure if the method rejects because `term.signal` has aborted.
 *
 * @param name the name of the leader; default: the only one of the application
 * @throws LockConfigurationError for a wrong name; at boot for a class that is request-scoped or transient
 * @example
 * ```ts
 * import { OnElected, type Term } from 'nestjs-distributed-lock/leader';
 *
 * class Outbox {@OnElected() async lead(term: Term) { console.log(`leads with token ${term.fencingToken}`); }}
 * ```
 */
export function OnElected(name?: string): TermDecorator {
  return mark('@OnElected', name);
}

/**
 * Calls the method of a provider with the `Term` as soon as the term is over. `term.signal.reason` says why. Unless the lock was lost,
 * the next leader is elected after the method has ended, or after `shutdownGraceMs` of the registration.
 *
 * An error of the method becomes an `error` event, which is logged.
 *
 * @param name the name of the leader; default: the only one of the application
 * @throws LockConfigurationError for a wrong name; at boot for a class that is request-scoped or transient
 */
export function OnDemoted(name?: string): TermDecorator {
  return mark('@OnDemoted', name);
}

function mark(decorator: TermMark['decorator'], name: string | undefined): TermDecorator {
  if (name !== undefined) checkLeaderName(decorator, name);
  return (
    target: object,
    method: string | symbol | undefined,
    descriptor: PropertyDescriptor | undefined,
  ) => {
    refuseStandard(decorator, method);
    const fn: unknown = descriptor?.value;
    if (typeof fn !== 'function' || typeof target === 'function') {
      throw new LockConfigurationError(
        `${decorator} on ${String(method ?? 'a class')}: it belongs on a method of the objects of a provider.`,
      );
    }
    Reflect.defineMetadata(MARKS, [...marksOf(fn), { decorator, name }], fn);
    classes.add(new WeakRef(target.constructor as unknown as AnyClass));
  };
}

function marksOf(fn: unknown): readonly TermMark[] {
  return typeof fn === 'function'
    ? ((Reflect.getOwnMetadata(MARKS, fn) as readonly TermMark[] | undefined) ?? [])
    : [];
}

/** One method with `@OnElected` or `@OnDemoted` of one provider. */
interface FoundHandler extends TermMark {
  readonly where: string;
  readonly call: (term: LeaderTerm) => unknown;
}

/**
 * Finds the `@OnElected` and `@OnDemoted` methods of all providers. @throws LockConfigurationError for a request-scoped or transient
 * class, of which there is no single object
 */
export function findHandlers(discovery: DiscoveryService): readonly FoundHandler[] {
  /**
   * The objects that were visited. A provider with `useExisting` is the object of another provider, whose methods must not be called twice.
   */
  const seen = new Set<unknown>();
  return discoveredClasses(discovery).flatMap(({ cls, wrapper }) => {
    const instance = wrapper.instance as Record<string | symbol, (term: LeaderTerm) => unknown>;
    const found = methodsOf(cls).flatMap(([method, fn]) =>
      marksOf(fn).map((mark): FoundHandler => {
        const where = `${mark.decorator} on ${cls.name}.${String(method)}`;
        return { ...mark, where, call: (term) => instance[method]?.(term) };
      }),
    );
    const [first] = found;
    if (!first || seen.has(instance)) return [];
    if (wrapper.isTransient || !wrapper.isDependencyTreeStatic()) {
      throw new LockConfigurationError(
        `${first.where}: the class is request-scoped or transient, so there is no single object to call. Move the method to a provider with the default scope.`,
      );
    }
    seen.add(instance);
    return found;
  });
}

/**
 * Finds the `@OnlyLeader` methods of all providers. @throws LockConfigurationError for a method that has `@CurrentTerm` without
 * `@OnlyLeader`
 */
export function findOnlyLeader(discovery: DiscoveryService): readonly OnlyLeaderSite[] {
  const sites = discoveredClasses(discovery).flatMap(({ cls }) =>
    methodsOf(cls).flatMap(([method, fn]) => {
      checkTerm(cls, method);
      return (Reflect.getOwnMetadata(SITE, fn as object) as OnlyLeaderSite | undefined) ?? [];
    }),
  );
  return [...new Set(sites)];
}

/** Classes with `@OnElected` or `@OnDemoted` that are not providers of this application, with the marks of their methods. */
export function findUnlistedClasses(
  discovery: DiscoveryService,
): readonly { readonly cls: AnyClass; readonly marks: readonly TermMark[] }[] {
  const known = discoveredClasses(discovery).map(({ cls }) => cls);
  const marked = new Set([...classes].flatMap((ref) => ref.deref() ?? []));
  return [...marked]
    .filter((cls) => !known.some((it) => it === cls || cls.prototype.isPrototypeOf(it.prototype)))
    .map((cls) => ({ cls, marks: methodsOf(cls).flatMap(([, fn]) => marksOf(fn)) }));
}

/**
 * Checks the parameters of one method. @throws LockConfigurationError if one has `@CurrentTerm`, but the method has no `@OnlyLeader` that
 * would pass the term
 */
function checkTerm(
  { name, prototype }: AnyClass & { readonly prototype: object },
  method: string | symbol,
): void {
  let owner = prototype;
  while (!Object.hasOwn(owner, method)) owner = Object.getPrototypeOf(owner) as object;
  // Read the mark from the object that declares the method, because another decorator may have replaced the function.
  if (!TERM_SLOTS.has(owner, method) || Reflect.hasOwnMetadata(SITE, owner, method)) return;
  throw new LockConfigurationError(
    `@CurrentTerm on ${name}.${String(method)}: only @OnlyLeader passes the term. Put @OnlyLeader() on the method. A method with @OnElected gets the term as its first argument.`,
  );
}

const TERM_SLOTS = new ParameterSlots<Term>(Symbol.for('nestjs-distributed-lock/term-slots'));

/**
 * Passes an `@OnlyLeader` method the `Term` in which this call of it runs. Callers leave the argument out, so write `term?: Term` on
 * methods that other code calls.
 *
 * @throws LockConfigurationError on a parameter of a constructor, when the class is loaded; at boot on a method without `@OnlyLeader`
 */
export function CurrentTerm(): ParameterDecorator {
  return TERM_SLOTS.decorator('@CurrentTerm', (term) => term);
}

/** Accepts only methods whose result may be `undefined`, because a call on an instance that does not lead returns that. */
type OnlyLeaderDecorator = <M extends (...args: never[]) => Promise<unknown>>(
  target: object,
  method: string | symbol,
  descriptor: TypedPropertyDescriptor<M> &
    (undefined extends Awaited<ReturnType<M>>
      ? unknown
      : {
          readonly "'result'": 'a call on an instance that does not lead gives undefined, which the method does not';
        }),
) => void;

interface OnlyLeaderSite {
  readonly name: string | undefined;
  readonly where: string;
}

const SITE = Symbol.for('nestjs-distributed-lock/only-leader');

/**
 * Runs the method only on the instance that leads. On the others a call does nothing, and resolves with `undefined`. For methods that a
 * timer calls on all instances: `@Cron` or `@Interval` of `@nestjs/schedule` may be above or below.
 *
 * The method runs in an async flow that holds the lock of the leader, and a parameter with `@CurrentTerm()` gets the term. A call
 * settles as the method does, even if the term ends meanwhile. A leader that steps down waits for running calls, for at most
 * `shutdownGraceMs` of the registration.
 *
 * A call on an object that is no provider rejects with `LockConfigurationError`.
 *
 * @param name the name of the leader; default: the only one of the application
 * @throws LockConfigurationError for a wrong name and for what is no method, when the class is loaded
 * @example
 * ```ts
 * import { OnlyLeader } from 'nestjs-distributed-lock/leader';
 *
 * class Reports {@OnlyLeader() async nightly(): Promise<void> {}}
 * ```
 */
export function OnlyLeader(name?: string): OnlyLeaderDecorator {
  if (name !== undefined) checkLeaderName('@OnlyLeader', name);
  return (target: object, method: string | symbol, descriptor: PropertyDescriptor | undefined) => {
    refuseStandard('@OnlyLeader', method);
    const original = descriptor?.value as AnyFunction | undefined;
    const isOfObjects = typeof target !== 'function' && typeof original === 'function';
    if (!isOfObjects || /Generator/.test(Object.prototype.toString.call(original))) {
      throw new LockConfigurationError(
        `@OnlyLeader on ${String(method ?? 'a class')}: it belongs on a method of the objects of a provider that returns a promise.`,
      );
    }
    const where = `@OnlyLeader on ${target.constructor.name}.${String(method)}`;
    const wrapped = wrapMethod(original, async (self, args) =>
      leadersOf(self, where)
        .of(name, where)
        .runAsLeader(
          (term) => Reflect.apply(original, self, TERM_SLOTS.fill({ target, method }, args, term)) as unknown,
        ),
    );
    Reflect.defineMetadata(SITE, { name, where } satisfies OnlyLeaderSite, wrapped);
    Reflect.defineMetadata(SITE, true, target, method);
    descriptor!.value = wrapped;
    // Optional, because the application may have no `LeaderModule`.
    Inject(LEADERS)(target, LEADERS);
    Optional()(target, LEADERS);
  };
}

function leadersOf(self: unknown, where: string): Leaders {
  const leaders = (self as { readonly [LEADERS]?: Leaders } | undefined)?.[LEADERS];
  if (leaders?.brand === LEADERS) return leaders;
  throw new LockConfigurationError(
    leaders
      ? `${where}: a mock is injected in the place of the leaders, so the method did not run. In a test import DistributedLockModule.forRoot() and LeaderModule.forFeature(…), which lead in memory.`
      : `${where}: Nest has injected no leaders into this object, so the method did not run. Make its class a provider of an application that imports LeaderModule.forFeature(…), and call it after the constructor: in onApplicationBootstrap() or later.`,
  );
}
