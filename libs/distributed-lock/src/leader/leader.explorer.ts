import type { DiscoveryService } from '@nestjs/core';
import { LockConfigurationError } from '../port/lock.errors.js';
import { discoveredClasses, methodsOf } from '../nest/discovered-classes.js';
import type { AnyClass } from '../nest/metadata.js';
import { TERM_SLOTS } from './current-term.decorator.js';
import type { LeaderTerm } from './leader-term.js';
import { markedClasses, marksOf, type TermMark } from './on-elected.decorator.js';
import { isOnlyLeader, onlyLeaderSiteOf, type OnlyLeaderSite } from './only-leader.decorator.js';

/** One method with `@OnElected` or `@OnDemoted` of one provider. */
interface FoundHandler extends TermMark {
  readonly where: string;
  readonly call: (term: LeaderTerm) => unknown;
}

/** @throws LockConfigurationError for a class of which there is no single object */
export function findHandlers(discovery: DiscoveryService): readonly FoundHandler[] {
  /** An alias has the object of another provider. */
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

/** @throws LockConfigurationError for a method with `@CurrentTerm` that nothing gives a term */
export function findOnlyLeader(discovery: DiscoveryService): readonly OnlyLeaderSite[] {
  const sites = discoveredClasses(discovery).flatMap(({ cls }) =>
    methodsOf(cls).flatMap(([method, fn]) => {
      checkTerm(cls, method);
      return onlyLeaderSiteOf(fn) ?? [];
    }),
  );
  return [...new Set(sites)];
}

/** Classes with `@OnElected` or `@OnDemoted` that are no providers of this application, with the marks of their methods. */
export function findStrangers(
  discovery: DiscoveryService,
): readonly { readonly cls: AnyClass; readonly marks: readonly TermMark[] }[] {
  const known = discoveredClasses(discovery).map(({ cls }) => cls);
  return markedClasses()
    .filter((cls) => !known.some((it) => it === cls || cls.prototype.isPrototypeOf(it.prototype)))
    .map((cls) => ({ cls, marks: methodsOf(cls).flatMap(([, fn]) => marksOf(fn)) }));
}

/** @throws LockConfigurationError if a parameter of the method waits for a term, and nothing passes one */
function checkTerm(
  { name, prototype }: AnyClass & { readonly prototype: object },
  method: string | symbol,
): void {
  let owner = prototype;
  while (!Object.hasOwn(owner, method)) owner = Object.getPrototypeOf(owner) as object;
  if (!TERM_SLOTS.has(owner, method) || isOnlyLeader(owner, method)) return;
  throw new LockConfigurationError(
    `@CurrentTerm on ${name}.${String(method)}: only @OnlyLeader passes the term. Put @OnlyLeader() on the method. A method with @OnElected gets the term as its first argument.`,
  );
}
