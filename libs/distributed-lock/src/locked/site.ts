import { describeGiven } from '../options/describe-given.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { Keys } from '../lock/lock.js';
import { KeyTemplate } from './key-template.js';
import type { LockedOptions } from './locked.options.js';
import type { AnyClass, AnyFunction } from '../nest/metadata.js';
import type { Signature } from '../nest/parameter-names.js';

/** One `@Locked` as it is written. Frozen. Its identity tells a call of its own method from calls of others. */
export interface LockedSite {
  readonly key: KeySource;
  /** The options of `@Locked` alone, without the defaults of the class. */
  readonly options: LockedOptions;
  readonly declaredIn: AnyClass;
  readonly method: string | symbol;
  readonly isStatic: boolean;
  /** The `@Locked` below this one on the same method. */
  readonly inner: LockedSite | undefined;
  /** That of the function below `@Locked`, which another decorator may have put in the place of the method. */
  readonly signature: Signature;
  /** True for an `async *` method, whose call returns an async generator at once. */
  readonly isGenerator: boolean;
}

/** Templates of keys, or a function of the method's arguments that gives them. */
type KeySource = readonly KeyTemplate[] | ((...args: never[]) => Keys);

const SITE = Symbol.for('nestjs-distributed-lock/site');

export function putSite(fn: AnyFunction, site: LockedSite): void {
  Reflect.defineMetadata(SITE, site, fn);
}

/** The `@Locked` of a method, or `undefined`. */
export function siteOf(fn: unknown): LockedSite | undefined {
  return typeof fn === 'function' ? (Reflect.getOwnMetadata(SITE, fn) as LockedSite | undefined) : undefined;
}

export function keySource(key: string | readonly string[] | ((...args: never[]) => Keys)): KeySource {
  if (typeof key === 'function') return key;
  const texts: unknown = typeof key === 'string' ? [key] : key;
  if (!Array.isArray(texts) || texts.some((text) => typeof text !== 'string')) {
    const description = Array.isArray(texts) ? 'a list with something else in it' : describeGiven(texts);
    throw new LockConfigurationError(
      `@Locked takes a key template, a list of them or a function of the arguments; it was given ${description}. Write @Locked('order:<id>').`,
    );
  }
  if (texts.length === 0) throw new LockConfigurationError('@Locked needs at least one key.');
  return texts.map((text: string) => KeyTemplate.compile(text));
}
