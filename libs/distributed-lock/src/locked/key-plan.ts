import type { ExecutionContext } from '@nestjs/common';
import { LockConfigurationError, LockKeyError, type LockError } from '../port/lock.errors.js';
import type { CallOptions, Keys, Lock } from '../lock/lock.js';
import type { HandlerValues } from './handler-values.js';
import { andThen, isPromiseLike, type MaybePromise } from '../common/promises.js';
import { checkHandler, shapeOf, sourceOf, type MethodShape, type ValueSource } from './key-source.js';
import type { Placeholder } from './key-template.js';
import { type AnyClass, ROUTE_PARAMETER } from '../nest/metadata.js';
import { callOptions, checkLockedOptions, optionsOf, type LockedOptions } from './locked.options.js';
import type { LockedSite } from './locked.options.js';

const NO_PARTS: RequestParts = new Map();

/** How to make the keys of one locked method of one concrete class, and its options. Created at boot, or at the first call. */
export class KeyPlan {
  private static readonly plans = new WeakMap<AnyClass, Map<LockedSite, KeyPlan>>();
  /** The options of `@Locked`, with those of `@LockDefaults` for what it leaves out. */
  readonly options: LockedOptions;
  /** The options that each call passes to the service. */
  readonly call: CallOptions;
  readonly shape: MethodShape;
  readonly where: string;
  private readonly sources = new Map<Placeholder, ValueSource>();
  private readonly parts = new WeakMap<ExecutionContext, RequestParts>();

  /** @throws LockConfigurationError for a name that the method does not have, or options that do not fit it */
  private constructor(
    cls: AnyClass,
    private readonly site: LockedSite,
  ) {
    const { key } = site;
    this.options = optionsOf(cls, site.options);
    this.shape = shapeOf(cls, site);
    this.where = this.shape.where;
    this.call = callOptions(this.options, this.where);
    // Check the merged options: those of the method may contradict those of its class.
    checkLockedOptions(`@Locked on ${this.where}`, this.options);
    for (const template of typeof key === 'function' ? [] : key) {
      for (const p of template.placeholders) this.sources.set(p, sourceOf(p, template, this.shape));
    }
    if (this.shape.kind) checkHandler(this.shape, site, this.options);
  }

  static of(cls: AnyClass, site: LockedSite): KeyPlan {
    let plans = KeyPlan.plans.get(cls);
    if (!plans) KeyPlan.plans.set(cls, (plans = new Map<LockedSite, KeyPlan>()));
    let plan = plans.get(site);
    if (!plan) plans.set(site, (plan = new KeyPlan(cls, site)));
    return plan;
  }

  /**
   * A warning if the key is the same for every request although the handler has a route parameter, so that all requests share one
   * lock. `undefined` for a key function, and for a key that several calls may hold at the same time.
   */
  get warning(): string | undefined {
    const { key } = this.site;
    const { kind, where, decorated } = this.shape;
    const { mode, permits } = this.call;
    if (kind !== 'http' || typeof key === 'function' || this.sources.size > 0) return undefined;
    if (mode === 'shared' || permits !== undefined) return undefined;
    const parameter = decorated.find(
      ({ type, data }) => type === ROUTE_PARAMETER && typeof data === 'string',
    );
    if (!parameter) return undefined;
    const [name, text] = [String(parameter.data), key.map((template) => template.text).join('", "')];
    return `@Locked on ${where}: the key "${text}" is the same for every "${name}" of the route, so all of its requests wait for each other. Write "${key[0]?.text}:<${name}>" for a lock of its own for each. If one lock is meant, give a function: () => '${key[0]?.text}'.`;
  }

  /**
   * The keys for a plain call of the method, in contrast to a request that Nest handles.
   *
   * @throws LockKeyError if an argument cannot be part of a key, or a placeholder names a part of a request
   */
  keysOfCall(args: readonly unknown[]): Keys {
    const { key } = this.site;
    if (typeof key === 'function') return this.callKey(args);
    return key.flatMap((template) => template.render({ valueOf: (p) => this.valueInArguments(p, args) }));
  }

  /**
   * The keys for a request, made before Nest calls the handler.
   *
   * @throws LockKeyError if a value cannot be part of a key, or the error of a pipe
   */
  keysOfRequest(context: ExecutionContext, values: HandlerValues): MaybePromise<Keys> {
    const { key } = this.site;
    if (typeof key === 'function') {
      return andThen(this.argumentsOf(key.length, context, values), (args) => {
        this.parts.set(context, new Map(args.entries()));
        return this.callKey(args);
      });
    }
    const sources = [...this.sources];
    return andThen(
      readAll(sources, ([, source]) => source.inRequest(context, values)),
      (list) => {
        const read = new Map(sources.map(([p], i) => [p, list[i]]));
        this.parts.set(context, new Map([...read].filter(([p]) => !this.sources.get(p)?.inArguments)));
        const valueOf = (p: Placeholder): unknown => read.get(p);
        const partOf = (p: Placeholder): string | undefined => this.sources.get(p)?.part;
        return key.flatMap((template) => template.render({ valueOf, partOf }));
      },
    );
  }

  /** Reads the first `count` arguments that Nest will pass to the handler. */
  argumentsOf(
    count: number,
    context: ExecutionContext,
    values: HandlerValues,
  ): MaybePromise<readonly unknown[]> {
    const parameters = Array.from({ length: count }, (_, index) =>
      this.shape.decorated.find((it) => it.index === index),
    );
    return readAll(parameters, (it) => it && values.read(it, context));
  }

  /** The values from which the keys of this request were made. */
  partsOf(context: ExecutionContext): RequestParts {
    return this.parts.get(context) ?? NO_PARTS;
  }

  /**
   * Returns whether these arguments of the handler make the keys that its request has locked. Calls a key function again, unless
   * it has certainly had the same arguments.
   *
   * @throws LockConfigurationError for a message whose arguments make another key, because the handler would run under the wrong
   * lock. That happens with global pipes that Nest does not reveal: those of a microservice, and those that an application adds
   * after it has connected one.
   */
  covers(args: readonly unknown[], { keys }: Lock, parts: RequestParts): boolean {
    const isMessage = this.shape.kind === 'rpc';
    let other: string | undefined;
    try {
      other = this.keysByArguments(args, parts).find((key) => !keys.includes(key));
    } catch (error) {
      if (isMessage) throw error;
      return false;
    }
    if (other === undefined || !isMessage) return other === undefined;
    throw new LockConfigurationError(
      `@Locked on ${this.where}: the handler is given the value of "${other}", but "${keys.join('", "')}" is locked, since pipes ran that this package cannot see: global ones of a microservice, or of the application after connectMicroservice. Bind them to the handler, or connect with inheritAppConfig after the last useGlobalPipes.`,
    );
  }

  /**
   * Returns whether `when` says that a call with these arguments needs no lock. Returns true if `when` returns a promise: it
   * cannot be awaited here.
   */
  isFree(args: readonly unknown[]): boolean {
    const { when } = this.options;
    const isNeeded: unknown = when && Reflect.apply(when, undefined, args.slice(0, when.length));
    return isNeeded instanceof Promise || !isNeeded;
  }

  /**
   * Returns whether the error is about a value that no client sends, such as `<user.tenant>`, so that the server is at fault. A
   * key function may use each argument that it gets, so this is only true if clients send none of them.
   */
  isServerMistake({ key: rendered, part }: LockError & { readonly part?: string }): boolean {
    const { key } = this.site;
    if (rendered !== undefined || part !== undefined) return false;
    return (
      typeof key !== 'function' ||
      this.shape.decorated.every(({ index, type }) => index >= key.length || type === undefined)
    );
  }

  private keysByArguments(args: readonly unknown[], parts: RequestParts): readonly string[] {
    const { key } = this.site;
    if (typeof key !== 'function') {
      // Skip a template with a placeholder that is neither in `parts` nor in the arguments: it names a part of the request that
      // pipes cannot change.
      const isKnown = (p: Placeholder) => parts.has(p) || this.sources.get(p)?.inArguments;
      return key
        .filter(({ placeholders }) => placeholders.every(isKnown))
        .flatMap((template) =>
          template.render({ valueOf: (p) => parts.get(p) ?? this.valueInArguments(p, args) }),
        );
    }
    const ownArgs = args.slice(0, key.length);
    // Compare primitives only. The same object may have changed since the key function read it.
    const isSame = ownArgs.every((it, i) => Object(it) !== it && parts.has(i) && parts.get(i) === it);
    return isSame ? [] : [this.callKey(ownArgs)].flat();
  }

  private valueInArguments(p: Placeholder, args: readonly unknown[]): unknown {
    const read = this.sources.get(p)?.inArguments;
    if (read) return read(args);
    const message = `No key for ${this.where}: ${p.text} is a part of a request, and this is a plain call of the method.`;
    throw new LockKeyError(message, undefined);
  }

  /** Calls the key function, and checks that it returns a string or a list, because it may be plain JavaScript. */
  private callKey(args: readonly unknown[]): Keys {
    const keys: unknown = Reflect.apply(this.site.key as () => Keys, undefined, args);
    if (typeof keys === 'string' || Array.isArray(keys)) return keys as Keys;
    throw new LockKeyError(
      `The key function of @Locked on ${this.where} gave no string and no list.`,
      undefined,
    );
  }
}

/**
 * The values of those placeholders that the handler's arguments do not contain. For a key function: the arguments that it got, by
 * position.
 */
export type RequestParts = ReadonlyMap<Placeholder | number, unknown>;

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
