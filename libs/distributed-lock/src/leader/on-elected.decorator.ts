import { LockConfigurationError } from '../port/lock.errors.js';
import { refuseStandard } from '../options/standard-decorators.js';
import type { AnyClass } from '../nest/metadata.js';
import type { Term } from './leader.js';
import { checkLeaderName } from './leader.tokens.js';

/** One `@OnElected` or `@OnDemoted` of a method. */
export interface TermMark {
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

/** Classes with such methods, also of another build of this package. By `WeakRef`, because tests load classes again and again. */
const CLASSES = Symbol.for('nestjs-distributed-lock/leader-classes');
const shared = globalThis as { [CLASSES]?: Set<WeakRef<AnyClass>> };
const classes = (shared[CLASSES] ??= new Set<WeakRef<AnyClass>>());

/**
 * Calls the method of a provider with the `Term` when this instance is elected. The method may return at once, and may as well
 * work until `term.signal` aborts. It runs in an async flow that holds the lock of the leader.
 *
 * When the term is over, the lock is given back once the method has ended, after `shutdownGraceMs` of the registration at
 * the latest. This instance is not elected again before the method has ended.
 *
 * A method that fails makes this instance step down. Its error becomes an `error` event, which is logged, and this instance
 * stands again after a pause, 1 s at first and 30 s at most. An error with which a method answers that `term.signal` has
 * aborted is no failure.
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
 * Calls the method of a provider with the `Term` at once when that is over. `term.signal.reason` says why. If the lock is not lost,
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

export function marksOf(fn: unknown): readonly TermMark[] {
  return typeof fn === 'function'
    ? ((Reflect.getOwnMetadata(MARKS, fn) as readonly TermMark[] | undefined) ?? [])
    : [];
}

/** All classes of the process that have such methods, providers or not. */
export function markedClasses(): readonly AnyClass[] {
  return [...new Set([...classes].flatMap((ref) => ref.deref() ?? []))];
}
