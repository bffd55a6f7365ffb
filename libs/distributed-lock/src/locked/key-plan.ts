import type { ExecutionContext } from '@nestjs/common';
import { LockConfigurationError, LockKeyError, isLockError } from '../port/lock.errors.js';
import type { CallOptions, Keys, Lock } from '../lock/lock.js';
import { readSource, type HandlerValues } from './handler-values.js';
import { andThen, readAll, type MaybePromise } from '../async-context/maybe-promise.js';
import { originOf, partNameOf, type Origin } from './key-origin.js';
import { follow, type Placeholder } from './key-template.js';
import { type AnyClass, type AnyFunction, ROUTE_PARAMETER } from '../nest/metadata.js';
import { optionsOf, type LockedSite } from './locked-site.js';
import { callOptions, checkLockedOptions, type LockedOptions } from './locked.options.js';
import { checkHandler, isHandler, shapeOf, type MethodShape } from './method-shape.js';

const NO_PARTS: RequestParts = new Map();

/** The keys and options of one locked method of one concrete class. Made once, at boot or at the first call. */
export class KeyPlan {
  private static readonly plans = new WeakMap<AnyClass, Map<LockedSite, KeyPlan>>();
  /** Options of `@Locked` over those of `@LockDefaults`. */
  readonly options: LockedOptions;
  /** The options that the service gets at each call. */
  readonly call: CallOptions;
  private readonly shape: MethodShape;
  private readonly origins = new Map<Placeholder, Origin>();
  private readonly parts = new WeakMap<ExecutionContext, RequestParts>();
  private readonly serverMistakes = new WeakSet<object>();

  /** @throws LockConfigurationError for a name that the method does not have, or options that do not fit it */
  private constructor(
    cls: AnyClass,
    private readonly site: LockedSite,
  ) {
    this.options = optionsOf(cls, site);
    this.shape = shapeOf(cls, site);
    this.call = callOptions(this.options, this.shape.where);
    // Options of the method and of its class may contradict each other.
    checkLockedOptions(`@Locked on ${this.shape.where}`, this.options);
    for (const template of typeof site.key === 'function' ? [] : site.key) {
      for (const p of template.placeholders) this.origins.set(p, originOf(p, template, this.shape));
    }
    if (isHandler(this.shape)) checkHandler(this.shape, site, this.options);
  }

  static of(cls: AnyClass, site: LockedSite): KeyPlan {
    let plans = KeyPlan.plans.get(cls);
    if (!plans) KeyPlan.plans.set(cls, (plans = new Map<LockedSite, KeyPlan>()));
    let plan = plans.get(site);
    if (!plan) plans.set(site, (plan = new KeyPlan(cls, site)));
    return plan;
  }

  get where(): string {
    return this.shape.where;
  }

  get answersItself(): boolean {
    return this.shape.answersItself;
  }

  /**
   * For a key that is the same for every request although the handler reads a parameter of its route. `undefined` for a
   * key function, and for a key that several may hold.
   */
  get warning(): string | undefined {
    const { key } = this.site;
    const { kind, where, decorated } = this.shape;
    const { mode, permits } = this.call;
    if (kind !== 'http' || typeof key === 'function' || this.origins.size > 0) return undefined;
    if (mode === 'shared' || permits !== undefined) return undefined;
    const parameter = decorated.find(
      ({ type, data }) => type === ROUTE_PARAMETER && typeof data === 'string',
    );
    if (!parameter) return undefined;
    const [name, text] = [String(parameter.data), key.map((template) => template.text).join('", "')];
    return `@Locked on ${where}: the key "${text}" is the same for every "${name}" of the route, so all of its requests wait for each other. Write "${key[0]?.text}:<${name}>" for a lock of its own for each. If one lock is meant, give a function: () => '${key[0]?.text}'.`;
  }

  /** The keys of a plain call. @throws LockKeyError */
  keysOfCall(args: readonly unknown[]): Keys {
    const { key } = this.site;
    if (typeof key === 'function') return this.checked(Reflect.apply(key, undefined, args));
    return key.flatMap((template) =>
      template.render(template.placeholders.map((p) => this.valueInCall(p, args))),
    );
  }

  /** The parts of the request that the key of this call was made of. */
  partsOf(context: ExecutionContext): RequestParts {
    return this.parts.get(context) ?? NO_PARTS;
  }

  /**
   * Whether these arguments of the handler name the keys that are locked for its request. Calls a key function again, unless
   * it surely had the same arguments.
   *
   * @throws LockConfigurationError for a message whose arguments name another key: the handler would run under another lock
   * than its own. Nest shows nobody the global pipes that a microservice has of its own, or that an application adds after it
   * has connected one.
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

  /** False for arguments that a lock is needed for. True where only a promise could tell. */
  isFree(args: readonly unknown[]): boolean {
    const { when } = this.options;
    const isNeeded: unknown = when && Reflect.apply(when, undefined, args.slice(0, when.length));
    return isNeeded instanceof Promise || !isNeeded;
  }

  /** The keys of a call that Nest is about to make. @throws LockKeyError, or the error of a pipe */
  keysOfRequest(context: ExecutionContext, values: HandlerValues): MaybePromise<Keys> {
    const { key } = this.site;
    if (typeof key === 'function') {
      return andThen(this.argumentsOf(key.length, context, values), (args) => {
        this.parts.set(context, new Map(args.entries()));
        return this.noting(
          () => this.checked(Reflect.apply(key, undefined, args)),
          this.takesFromServer(key),
        );
      });
    }
    const read = readAll([...this.origins.keys()], (p) => this.valueInRequest(p, context, values));
    return andThen(read, (list) => {
      const values = new Map([...this.origins.keys()].map((p, i) => [p, list[i]]));
      const parts = new Map([...values].filter(([p]) => this.isPart(p)));
      if (parts.size > 0) this.parts.set(context, parts);
      return this.noting(
        () =>
          key.flatMap((it) =>
            it.render(
              it.placeholders.map((p) => values.get(p)),
              (p) => this.partName(p),
            ),
          ),
        true,
      );
    });
  }

  private keysByArguments(args: readonly unknown[], parts: RequestParts): readonly string[] {
    const { key } = this.site;
    if (typeof key !== 'function') {
      return key
        .filter(({ placeholders }) => placeholders.every((p) => !this.isPart(p) || parts.has(p)))
        .flatMap((template) =>
          template.render(template.placeholders.map((p) => parts.get(p) ?? this.valueInCall(p, args))),
        );
    }
    const own = args.slice(0, key.length);
    return isGivenAgain(own, parts) ? [] : [this.checked(Reflect.apply(key, undefined, own))].flat();
  }

  /** @param isOfServer whether the server gives each value that an error without a `part` may be about */
  private noting<T>(make: () => T, isOfServer: boolean): T {
    try {
      return make();
    } catch (error) {
      if (isOfServer && isLockError(error) && !('part' in error && error.part))
        this.serverMistakes.add(error);
      throw error;
    }
  }

  /** True for a key function that reads decorators of the application alone, such as `@CurrentUser()`. */
  private takesFromServer(key: AnyFunction): boolean {
    const read = this.shape.decorated.filter(({ index }) => index < key.length);
    return read.every(({ type }) => type === undefined);
  }

  /** True for an error about a value that no client sends, such as `<user.tenant>`. */
  isServerMistake(error: object): boolean {
    return this.serverMistakes.has(error);
  }

  private partName(p: Placeholder): string | undefined {
    const { kind } = this.shape;
    return kind && partNameOf(this.origins.get(p) as Origin, kind);
  }

  private isPart(p: Placeholder): boolean {
    return 'source' in (this.origins.get(p) as Origin);
  }

  /** The first `count` arguments that Nest is about to give to the handler. */
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

  private valueInCall(p: Placeholder, args: readonly unknown[]): unknown {
    const origin = this.origins.get(p) as Origin;
    if ('argument' in origin) return follow(args[origin.argument], origin.rest);
    const message = `No key for ${this.where}: ${p.text} is a part of a request, and this is a plain call of the method.`;
    throw new LockKeyError(message, undefined);
  }

  private valueInRequest(
    p: Placeholder,
    context: ExecutionContext,
    values: HandlerValues,
  ): MaybePromise<unknown> {
    const origin = this.origins.get(p) as Origin;
    if ('source' in origin) return follow(readSource(origin.source, context), origin.rest);
    return andThen(origin.parameter && values.read(origin.parameter, context), (it) =>
      follow(it, origin.rest),
    );
  }

  /** Checks the result of a key function, which may be plain JavaScript. */
  private checked(keys: Keys): Keys {
    if (typeof keys === 'string' || Array.isArray(keys)) return keys;
    throw new LockKeyError(
      `The key function of @Locked on ${this.where} gave no string and no list.`,
      undefined,
    );
  }
}

/** The values of those placeholders that no argument of the handler has. For a key function: its arguments by position. */
export type RequestParts = ReadonlyMap<Placeholder | number, unknown>;

/** True for the arguments that a key function had. False if one is an object, which may have changed since. */
function isGivenAgain(args: readonly unknown[], parts: RequestParts): boolean {
  return args.every((it, position) => Object(it) !== it && parts.has(position) && parts.get(position) === it);
}
