import { Inject, Injectable } from '@nestjs/common';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { AnyClass } from '../locked/nest/nest-metadata.js';
import { takesTerm } from './current-term.decorator.js';
import type { LeaderTerm } from './leader-term.js';
import { markedClasses, marksOf, type TermMark } from './on-elected.decorator.js';
import { isOnlyLeader, onlyLeaderSiteOf, type OnlyLeaderSite } from './only-leader.decorator.js';

/** One method with `@OnElected` or `@OnDemoted` of one provider. */
interface FoundHandler extends TermMark {
  readonly where: string;
  call(term: LeaderTerm): unknown;
}

/** Finds the methods of an application that are for leaders. */
@Injectable()
export class LeaderExplorer {
  constructor(
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
    @Inject(MetadataScanner) private readonly scanner: MetadataScanner,
  ) {}

  /** @throws LockConfigurationError for a class of which there is no single object */
  findHandlers(): readonly FoundHandler[] {
    /** An alias has the object of another provider. */
    const seen = new Set<unknown>();
    return this.wrappers().flatMap((wrapper) => {
      const { instance, cls } = wrapper;
      const found = this.methods(cls).flatMap(([method, fn]) =>
        marksOf(fn).map((mark) => ({ ...mark, method, where: `${mark.decorator} on ${cls.name}.${method}` })),
      );
      const [first] = found;
      if (!first || seen.has(instance)) return [];
      if (!wrapper.isSingle) {
        throw new LockConfigurationError(
          `${first.where}: the class is request-scoped or transient, so there is no single object to call. Move the method to a provider with the default scope.`,
        );
      }
      seen.add(instance);
      return found.map(({ method, ...handler }) => ({
        ...handler,
        call: (term: LeaderTerm) =>
          (instance as Record<string, (term: LeaderTerm) => unknown>)[method]?.(term),
      }));
    });
  }

  /** @throws LockConfigurationError for a method with `@CurrentTerm` that nothing gives a term */
  findOnlyLeader(): readonly OnlyLeaderSite[] {
    for (const { cls } of this.wrappers()) for (const [method] of this.methods(cls)) checkTerm(cls, method);
    const sites = this.wrappers().flatMap(({ cls }) =>
      this.methods(cls).flatMap(([, fn]) => onlyLeaderSiteOf(fn) ?? []),
    );
    return [...new Set(sites)];
  }

  /** Classes with `@OnElected` or `@OnDemoted` that this application has not, with the marks of their methods. */
  findStrangers(): readonly { readonly cls: AnyClass; readonly marks: readonly TermMark[] }[] {
    const known = this.wrappers().map(({ cls }) => cls);
    return markedClasses()
      .filter((cls) => !known.some((it) => it === cls || cls.prototype.isPrototypeOf(it.prototype as object)))
      .map((cls) => ({ cls, marks: this.methods(cls).flatMap(([, fn]) => marksOf(fn)) }));
  }

  private wrappers(): readonly Found[] {
    return [...this.discovery.getProviders(), ...this.discovery.getControllers()].flatMap((wrapper) => {
      const { metatype, isNotMetatype } = wrapper;
      const instance = wrapper.instance as object | null | undefined;
      const cls: unknown = isNotMetatype ? instance?.constructor : metatype;
      if (typeof cls !== 'function' || typeof cls.prototype !== 'object') return [];
      const isSingle = wrapper.isDependencyTreeStatic() && !wrapper.isTransient;
      return { cls: cls as unknown as PrototypedClass, instance, isSingle };
    });
  }

  private methods(cls: PrototypedClass): readonly (readonly [name: string, fn: unknown])[] {
    const prototype = cls.prototype as Readonly<Record<string, unknown>>;
    return this.scanner.getAllMethodNames(prototype).map((name) => [name, prototype[name]]);
  }
}

/** @throws LockConfigurationError if a parameter of the method waits for a term, and nothing passes one */
function checkTerm(cls: PrototypedClass, method: string): void {
  let owner = cls.prototype;
  while (!Object.hasOwn(owner, method)) owner = Object.getPrototypeOf(owner) as object;
  if (!takesTerm(owner, method) || isOnlyLeader(owner, method)) return;
  throw new LockConfigurationError(
    `@CurrentTerm on ${cls.name}.${method}: only @OnlyLeader passes the term. Put @OnlyLeader() on the method. A method with @OnElected gets the term as its first argument.`,
  );
}

type PrototypedClass = AnyClass & { readonly prototype: object };

interface Found {
  readonly cls: PrototypedClass;
  readonly instance: object | null | undefined;
  readonly isSingle: boolean;
}
