import { LockConfigurationError } from '../port/lock.errors.js';
import { refuseStandard } from '../options/standard-decorators.js';
import type { AnyFunction } from '../nest/metadata.js';
import { wrapMethod } from '../nest/wrap-method.js';
import type { Candidate } from './candidate.js';
import { TERM_SLOTS } from './current-term.decorator.js';
import { LEADERS, checkLeaderName, injectLeaders } from './leader.tokens.js';

/** The decorator of a method whose call on another instance gives `undefined`. */
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

export interface OnlyLeaderSite {
  readonly name: string | undefined;
  readonly where: string;
}

/** All leaders of the application, which Nest injects into objects with such methods. Implemented by `Leaders`. */
interface AllLeaders {
  /** `LEADERS`. A mock answers any name with something of its own. */
  readonly brand: symbol;
  of(name: string | undefined, where: string): Candidate;
}

const SITE = Symbol.for('nestjs-distributed-lock/only-leader');

/**
 * Runs the method on the instance that leads. On the others a call does nothing, and resolves with `undefined`. For methods
 * that run by a timer on all instances: `@Cron` or `@Interval` of `@nestjs/schedule` may stand above or below.
 *
 * The method runs in an async flow that holds the lock of the leader, and a parameter with `@CurrentTerm()` gets the term. A
 * call settles as the method does, also when the term ends meanwhile. A leader that steps down waits for running calls, for
 * `shutdownGraceMs` of the registration at most.
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
    injectLeaders(target);
  };
}

export function onlyLeaderSiteOf(fn: unknown): OnlyLeaderSite | undefined {
  return typeof fn === 'function'
    ? (Reflect.getOwnMetadata(SITE, fn) as OnlyLeaderSite | undefined)
    : undefined;
}

/** @param prototype the object that declares the method, which other decorators may have replaced */
export function isOnlyLeader(prototype: object, method: string | symbol): boolean {
  return Reflect.hasOwnMetadata(SITE, prototype, method);
}

function leadersOf(self: unknown, where: string): AllLeaders {
  const leaders = (self as { readonly [LEADERS]?: AllLeaders } | undefined)?.[LEADERS];
  if (leaders?.brand === LEADERS) return leaders;
  throw new LockConfigurationError(
    leaders
      ? `${where}: a mock is injected in the place of the leaders, so the method did not run. In a test import DistributedLockModule.forRoot() and LeaderModule.forFeature(…), which lead in memory.`
      : `${where}: Nest has injected no leaders into this object, so the method did not run. Make its class a provider of an application that imports LeaderModule.forFeature(…), and call it after the constructor: in onApplicationBootstrap() or later.`,
  );
}
