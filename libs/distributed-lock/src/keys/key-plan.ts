// The keys of one decorated method: of a plain call from its arguments, of a request before Nest calls the handler. `@Locked`,
// `@Once` and `@LockedJob` ask it for each call. It knows no lock.
import type { ExecutionContext } from '@nestjs/common';
import { andThen, isPromiseLike, type MaybePromise } from '../common/promises.js';
import { isKeyClaim, keyOf, type Keys } from '../lock/request/key-claim.js';
import { type HandlerValues, isReadable } from '../nest/handler-values.js';
import {
  type AnyClass,
  type AnyFunction,
  type Handler,
  handlerOf,
  type HandlerKind,
  type HandlerParameter,
} from '../nest/metadata.js';
import { declaringClass, type Signature, signatureOf } from '../nest/parameter-names.js';
import { LockConfigurationError, LockKeyError } from '../port/lock.errors.js';
import type { KeyTemplate, Placeholder } from './key-template.js';
import { offerOf, sourceOf, type ValueSource } from './value-sources.js';

/** One decorator with a key, as written in the source. Compared by identity, because each decorated method has its own. */
export interface KeySite {
  /** Its name, for messages: `@Locked`. */
  readonly decorator: string;
  /** The compiled templates, or the function that makes the keys from the method's arguments. */
  readonly key: readonly KeyTemplate[] | ((...args: never[]) => Keys);
  readonly declaredIn: AnyClass;
  readonly method: string | symbol;
  readonly isStatic: boolean;
  /**
   * The parameters of the function that the decorator found. It need not be the method itself: a decorator below may have replaced
   * that.
   */
  readonly signature: Signature;
}

/** Makes the site of a decorator on the method of a class, or on a static one. */
export function newKeySite(
  { target, method, original }: { target: object; method: string | symbol; original: AnyFunction },
  written: Pick<KeySite, 'decorator' | 'key'>,
): KeySite {
  return {
    ...written,
    declaredIn: declaringClass(target),
    method,
    isStatic: typeof target === 'function',
    signature: signatureOf(original),
  };
}

/** The keys of one call, and for a request the values from which they were made. */
export interface CallKeys {
  readonly keys: Keys;
  readonly values?: RequestValues;
}

/** By placeholder. For a key function: the arguments that it got, by position. */
export type RequestValues = ReadonlyMap<Placeholder | number, unknown>;

/** How to make the keys of one method of one concrete class. Created at boot, or at the first call. */
export class KeyPlan<S extends KeySite = KeySite> {
  /** `GoodsController.purchase`, for messages. */
  readonly where: string;
  /** The transport over which Nest calls the method; `undefined` for a method that only other code calls. */
  readonly kind: HandlerKind | undefined;
  /** True for a handler that sends its response itself, perhaps after it has returned. */
  readonly answersItself: boolean;
  /** The parameters that Nest fills in; empty for a method that is no handler. */
  readonly decorated: readonly HandlerParameter[];
  private readonly sources = new Map<Placeholder, ValueSource>();

  /** @throws LockConfigurationError for a name that the method does not have */
  constructor(
    cls: AnyClass,
    readonly site: S,
  ) {
    const { key, method } = site;
    this.where = `${cls.name}.${String(method)}`;
    const handler = handlerOfSite(cls, site);
    this.kind = handler?.kind;
    this.decorated = handler?.parameters ?? [];
    this.answersItself = handler?.answersItself ?? false;
    if (typeof key === 'function') return;
    for (const template of key) {
      for (const p of template.placeholders) this.sources.set(p, this.findSource(p, template));
    }
  }

  /** True if every call has the same keys. Nobody knows that of a key function. */
  get isConstant(): boolean {
    return typeof this.site.key !== 'function' && this.sources.size === 0;
  }

  /**
   * The keys for a plain call of the method, in contrast to a request that Nest handles.
   *
   * @throws LockKeyError if an argument cannot be part of a key, or a placeholder names a part of a request
   */
  keysOfCall(args: readonly unknown[]): Keys {
    const { key } = this.site;
    if (typeof key === 'function') return this.callKey(args);
    const valueOf = (p: Placeholder): unknown => this.valueOf(p, args);
    return key.flatMap((template) => template.renderClaims({ valueOf }));
  }

  /**
   * The keys for a request, made before Nest calls the handler.
   *
   * @throws LockKeyError if a value cannot be part of a key, or the error of a pipe
   */
  keysOfRequest(context: ExecutionContext, reader: HandlerValues): MaybePromise<CallKeys> {
    const { key } = this.site;
    if (typeof key === 'function') {
      return andThen(this.argumentsOf(key.length, context, reader), (args) => ({
        keys: this.callKey(args),
        values: new Map(args.entries()),
      }));
    }
    const sources = [...this.sources];
    const read = readAll(sources, ([, source]) => source.inRequest(context, reader));
    return andThen(read, (list) => {
      const values = new Map(sources.map(([p], i) => [p, list[i]]));
      const valueOf = (p: Placeholder): unknown => values.get(p);
      const partOf = (p: Placeholder): string | undefined => this.sources.get(p)?.part;
      return { keys: key.flatMap((template) => template.renderClaims({ valueOf, partOf })), values };
    });
  }

  /** Reads the first `count` arguments that Nest will pass to the handler. */
  argumentsOf(
    count: number,
    context: ExecutionContext,
    reader: HandlerValues,
  ): MaybePromise<readonly unknown[]> {
    const parameters = Array.from({ length: count }, (_, index) =>
      this.decorated.find((it) => it.index === index),
    );
    return readAll(parameters, (it) => it && reader.read(it, context));
  }

  /**
   * The keys that a request has with these arguments of its handler, which pipes may have changed since. Takes what no argument
   * contains from `values`. Empty for a key function that has certainly had the same arguments; otherwise calls it again.
   *
   * @throws LockKeyError if an argument cannot be part of a key
   */
  keysByArguments(args: readonly unknown[], values: RequestValues): readonly string[] {
    const { key } = this.site;
    if (typeof key !== 'function') {
      return key.flatMap((template) => template.render({ valueOf: (p) => this.valueOf(p, args, values) }));
    }
    const ownArgs = args.slice(0, key.length);
    // Compare primitives only. The same object may have changed since the key function read it.
    const isSame = ownArgs.every((it, i) => Object(it) !== it && values.has(i) && values.get(i) === it);
    return isSame ? [] : [this.callKey(ownArgs)].flat().map(keyOf);
  }

  /**
   * For a function of a handler's arguments: checks that its source shows which ones it takes, and that each of them can be read
   * before Nest calls the handler.
   *
   * @param leading the number of parameters before the handler's arguments
   * @throws LockConfigurationError for a function that cannot be served
   */
  checkFunction(role: string, fn: AnyFunction, leading = 0): void {
    const { parameters, gap } = signatureOf(fn);
    if (parameters.some((it) => it.kind === 'open')) {
      throw this.error(
        `the ${role} function has a default or a rest parameter; a handler's must name each argument plainly.`,
      );
    }
    if (gap !== undefined) {
      throw this.error(
        `it cannot be read which arguments the ${role} function takes, as it is bound, wrapped, or has a "/" between its parentheses. Write a plain function around it that names each of them.`,
      );
    }
    const { decorated, kind } = this;
    const missing = decorated.find((it) => it.index < fn.length - leading && kind && !isReadable(it, kind));
    if (!missing) return;
    throw this.error(
      `argument ${missing.index} of the handler is not there yet when the ${role} function is called.`,
    );
  }

  /** Makes an error that begins with the decorator and the method. */
  error(text: string): LockConfigurationError {
    return new LockConfigurationError(`${this.site.decorator} on ${this.where}: ${text}`);
  }

  private findSource(p: Placeholder, template: KeyTemplate): ValueSource {
    const { kind, decorated, site } = this;
    const shape = { kind, decorated, signature: site.signature };
    const source = sourceOf(p, shape);
    if (typeof source === 'object') return source;
    const place = `${p.text} in "${template.text}" at position ${p.position}`;
    throw this.error(source ? `${place} ${source}` : `unknown ${place}; ${offerOf(shape)}.`);
  }

  private valueOf(p: Placeholder, args: readonly unknown[], values?: RequestValues): unknown {
    const read = this.sources.get(p)?.inArguments;
    if (read) return read(args);
    if (values) return values.get(p);
    const message = `No key for ${this.where}: ${p.text} is a part of a request, and this is a plain call of the method.`;
    throw new LockKeyError(message, undefined);
  }

  /**
   * Calls the key function, and checks that it returns a string or a list, because it may be plain JavaScript. The list of a request
   * may be empty, which is a mistake of its client, as it is with a template.
   */
  private callKey(args: readonly unknown[]): Keys {
    const keys: unknown = Reflect.apply(this.site.key as () => Keys, undefined, args);
    const isList = Array.isArray(keys) && keys.length > 0;
    if (typeof keys === 'string' || isList || isKeyClaim(keys)) return keys as Keys;
    const what = Array.isArray(keys) ? 'an empty list, which locks nothing' : 'no string and no list';
    throw new LockKeyError(
      `The key function of ${this.site.decorator} on ${this.where} gave ${what}.`,
      undefined,
    );
  }
}

/**
 * What Nest knows of the decorated method as a handler; `undefined` if it is static, or if the class has no such method.
 *
 * If the class overrides the method, only a `super` call comes here. Its arguments are those of the class that declares the method, so
 * the parameters of the override do not count.
 */
function handlerOfSite(cls: AnyClass, { declaredIn, method, isStatic }: KeySite): Handler | undefined {
  if (isStatic) return undefined;
  const [own, declared] = [methodOf(cls, method), methodOf(declaredIn, method)];
  if (own === declared) return own && handlerOf(cls, method, own);
  return declared && handlerOf(declaredIn, method, declared);
}

function methodOf(cls: AnyClass, method: string | symbol): AnyFunction | undefined {
  return (cls.prototype as Readonly<Record<string | symbol, AnyFunction>> | undefined)?.[method];
}

/** Makes the plan of a method at its first use, and keeps it for the class and the decorator. */
export function oncePerMethod<S extends KeySite, P>(
  make: (cls: AnyClass, site: S) => P,
): (cls: AnyClass, site: S) => P {
  const byClass = new WeakMap<AnyClass, Map<S, P>>();
  return (cls, site) => {
    let plans = byClass.get(cls);
    if (!plans) byClass.set(cls, (plans = new Map<S, P>()));
    let plan = plans.get(site);
    if (!plan) plans.set(site, (plan = make(cls, site)));
    return plan;
  };
}

/** The plan of a method of a class. */
export const keyPlanOf = oncePerMethod((cls, site: KeySite) => new KeyPlan(cls, site));

/**
 * Reads all of `items` at the same time. If `read` throws for one of them, the promises of the others are still awaited, so no
 * rejection goes unhandled.
 */
function readAll<I, T>(items: readonly I[], read: (item: I) => MaybePromise<T>): MaybePromise<readonly T[]> {
  const values = items.map((item): MaybePromise<T> => {
    try {
      return read(item);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  });
  return values.some(isPromiseLike) ? Promise.all(values) : (values as readonly T[]);
}
