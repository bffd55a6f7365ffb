import type { ExecutionContext } from '@nestjs/common';
import { andThen, isPromiseLike, type MaybePromise } from '../common/promises.js';
import type { CallOptions, Lock } from '../lock/lock.js';
import { isKeyClaim, keyOf, type Keys, withClaimOf } from '../lock/request/key-claim.js';
import {
  type AnyClass,
  type AnyFunction,
  handlerOf,
  type HandlerKind,
  type HandlerParameter,
  ROUTE_PARAMETER,
} from '../nest/metadata.js';
import { type Signature, signatureOf } from '../nest/parameter-names.js';
import { LockConfigurationError, type LockError, LockKeyError } from '../port/lock.errors.js';
import { type HandlerValues, isReadable, readSource } from './handler-values.js';
import { EACH, type KeyTemplate, type Placeholder, valueAtPath } from './key-template.js';
import {
  callOptions,
  checkLockedOptions,
  type LockedOptions,
  type LockedSite,
  optionsOf,
} from './locked.options.js';

/** The keys of one call, and for a request the values from which they were made. */
export interface CallKeys {
  readonly keys: Keys;
  readonly parts?: RequestParts;
}

/**
 * The values of those placeholders that the handler's arguments do not contain. For a key function: the arguments that it got, by
 * position.
 */
type RequestParts = ReadonlyMap<Placeholder | number, unknown>;

const NO_PARTS: RequestParts = new Map();

/** How to make the keys of one locked method of one concrete class, and its options. Created at boot, or at the first call. */
export class KeyPlan {
  private static readonly plans = new WeakMap<AnyClass, Map<LockedSite, KeyPlan>>();
  /** The options of `@Locked`, with those of `@LockDefaults` for what it leaves out. */
  readonly options: LockedOptions;
  /** The options that each call passes to the service. */
  readonly call: CallOptions;
  /** `GoodsController.purchase`, for messages. */
  readonly where: string;
  /** The transport over which Nest calls the method; `undefined` for a method that only other code calls. */
  readonly kind: HandlerKind | undefined;
  /** True for a handler that sends its response itself, perhaps after it has returned. */
  readonly answersItself: boolean;
  /** The parameters that Nest fills in; empty for a method that is no handler. */
  readonly decorated: readonly HandlerParameter[];
  private readonly sources = new Map<Placeholder, ValueSource>();

  /** @throws LockConfigurationError for a name that the method does not have, or options that do not fit it */
  private constructor(
    cls: AnyClass,
    readonly site: LockedSite,
  ) {
    const { key, method, isStatic } = site;
    const methods = cls.prototype as Readonly<Record<string | symbol, AnyFunction>> | undefined;
    const fn = isStatic ? undefined : methods?.[method];
    this.where = `${cls.name}.${String(method)}`;
    const handler = fn && handlerOf(cls, method, fn);
    this.kind = handler?.kind;
    this.decorated = handler?.parameters ?? [];
    this.answersItself = handler?.answersItself ?? false;
    this.options = optionsOf(cls, site.options);
    this.call = callOptions(this.options, this.where);
    // Check the merged options: those of the method may contradict those of its class.
    checkLockedOptions(`${site.decorator} on ${this.where}`, this.options, key);
    for (const template of typeof key === 'function' ? [] : key) {
      for (const p of template.placeholders) this.sources.set(p, sourceOf(p, template, this));
    }
    if (this.kind) checkHandler(this);
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
    if (this.kind !== 'http' || typeof key === 'function' || this.sources.size > 0) return undefined;
    const isExclusive = ({ claim }: KeyTemplate): boolean => {
      const { mode, permits } = withClaimOf(this.call, claim);
      return mode !== 'shared' && permits === undefined;
    };
    const texts = key.filter(isExclusive).map(({ text }) => text);
    if (texts.length === 0) return undefined;
    const parameter = this.decorated.find(
      ({ type, data }) => type === ROUTE_PARAMETER && typeof data === 'string',
    );
    if (!parameter) return undefined;
    const [name, text] = [String(parameter.data), texts.join('", "')];
    return `@Locked on ${this.where}: the key "${text}" is the same for every "${name}" of the route, so all of its requests wait for each other. Write "${texts[0]}:<${name}>" for a lock of its own for each. If one lock is meant, give a function: () => '${texts[0]}'.`;
  }

  /**
   * The keys for a plain call of the method, in contrast to a request that Nest handles.
   *
   * @throws LockKeyError if an argument cannot be part of a key, or a placeholder names a part of a request
   */
  keysOfCall(args: readonly unknown[]): Keys {
    const { key } = this.site;
    if (typeof key === 'function') return this.callKey(args);
    const valueOf = (p: Placeholder): unknown => this.valueInArguments(p, args);
    return key.flatMap((template) => template.renderClaims({ valueOf }));
  }

  /**
   * The keys for a request, made before Nest calls the handler.
   *
   * @throws LockKeyError if a value cannot be part of a key, or the error of a pipe
   */
  keysOfRequest(context: ExecutionContext, values: HandlerValues): MaybePromise<CallKeys> {
    const { key } = this.site;
    if (typeof key === 'function') {
      return andThen(this.argumentsOf(key.length, context, values), (args) => ({
        keys: this.callKey(args),
        parts: new Map(args.entries()),
      }));
    }
    const sources = [...this.sources];
    return andThen(
      readAll(sources, ([, source]) => source.inRequest(context, values)),
      (list) => {
        const read = new Map(sources.map(([p], i) => [p, list[i]]));
        const valueOf = (p: Placeholder): unknown => read.get(p);
        const partOf = (p: Placeholder): string | undefined => this.sources.get(p)?.part;
        return {
          keys: key.flatMap((template) => template.renderClaims({ valueOf, partOf })),
          parts: new Map([...read].filter(([p]) => !this.sources.get(p)?.inArguments)),
        };
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
      this.decorated.find((it) => it.index === index),
    );
    return readAll(parameters, (it) => it && values.read(it, context));
  }

  /**
   * Returns whether these arguments of the handler make the keys that its request has locked. Calls a key function again, unless
   * it has certainly had the same arguments.
   *
   * @throws LockConfigurationError for a message whose arguments make another key, because the handler would run under the wrong
   * lock. That happens with global pipes that Nest does not reveal: those of a microservice, and those that an application adds
   * after it has connected one.
   */
  covers(args: readonly unknown[], { keys }: Lock, parts = NO_PARTS): boolean {
    const isMessage = this.kind === 'rpc';
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
   * key function may use any of its arguments, so its error is the server's mistake only if clients send none of them.
   */
  isServerMistake({ key: rendered, part }: LockError & { readonly part?: string }): boolean {
    const { key } = this.site;
    if (rendered !== undefined || part !== undefined) return false;
    return (
      typeof key !== 'function' ||
      this.decorated.every(({ index, type }) => index >= key.length || type === undefined)
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
    return isSame ? [] : [this.callKey(ownArgs)].flat().map(keyOf);
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
    if (typeof keys === 'string' || Array.isArray(keys) || isKeyClaim(keys)) return keys as Keys;
    throw new LockKeyError(
      `The key function of ${this.site.decorator} on ${this.where} gave no string and no list.`,
      undefined,
    );
  }
}

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

/** Where the value of one placeholder comes from. */
interface ValueSource {
  /**
   * Reads the value from the method's arguments. `undefined` if the placeholder names a part of the request that no argument
   * contains.
   */
  readonly inArguments?: (args: readonly unknown[]) => unknown;
  /** Reads the value from a request, before Nest calls the handler. */
  readonly inRequest: (context: ExecutionContext, values: HandlerValues) => MaybePromise<unknown>;
  /**
   * How clients know the value, for error messages: `header x-tenant`, `body.sku`. `undefined` for a value that clients do not
   * send.
   */
  readonly part: string | undefined;
}

/**
 * The source names that placeholders may use in each kind of handler, as in `<body.sku>`. The number is Nest's, of the decorator
 * that reads the same source.
 */
const SOURCES: Readonly<Record<HandlerKind, Readonly<Record<string, number | undefined>>>> = {
  http: { params: ROUTE_PARAMETER, query: 4, body: 3, headers: 6, user: undefined },
  rpc: { data: 3 },
  ws: { data: 3 },
  other: { args: 3, user: undefined },
};

const POSITION = /^\d+$/;

/**
 * Finds where a placeholder gets its value.
 *
 * @throws LockConfigurationError for a name that the method does not have. The message lists the names that it has.
 */
function sourceOf(p: Placeholder, template: KeyTemplate, plan: KeyPlan): ValueSource {
  const { kind, decorated, site } = plan;
  const source = kind ? inHandler(p, decorated, kind) : inMethod(p, site.signature);
  if (typeof source === 'object') return source;
  const place = `${p.text} in "${template.text}" at position ${p.position}`;
  throw planError(plan, source ? `${place} ${source}` : `unknown ${place}; ${offerOf(plan)}.`);
}

function inMethod(
  { path: [name = '', ...rest] }: Placeholder,
  { parameters, gap }: Signature,
): ValueSource | undefined {
  const isPosition = POSITION.test(name);
  // A script that is not strict may give two parameters the same name. Its code then reads the last one.
  const index = isPosition ? Number(name) : parameters.findLastIndex((it) => it.name === name);
  const isOpen = gap !== undefined || parameters.some(({ kind }) => kind === 'open');
  if (index < 0 || (index >= parameters.length && !isOpen)) return undefined;
  return {
    inArguments: (args) => valueAtPath(args[index], rest),
    inRequest: () => undefined,
    part: undefined,
  };
}

/**
 * Finds the source of a placeholder in a handler.
 *
 * @returns the source, `undefined` if nothing matches, or the reason as text if several parameters match
 */
function inHandler(
  p: Placeholder,
  decorated: KeyPlan['decorated'],
  kind: HandlerKind,
): ValueSource | string | undefined {
  const [name = '', field, ...deeper] = p.path;
  if (field !== undefined && Object.hasOwn(SOURCES[kind], name)) {
    // If the handler declares this field as a parameter, read it through the pipes of that parameter, so that key and handler get
    // the same value.
    const type = SOURCES[kind][name];
    const declared = decorated.find((it) => type !== undefined && it.type === type && it.data === field);
    if (declared) return ofParameter(declared, kind, deeper);
    const path = [name === 'headers' ? field.toLowerCase() : field, ...deeper];
    return {
      inRequest: (context) => valueAtPath(readSource(name, context), path),
      part: partName([name, ...path]),
    };
  }
  const named = decorated.filter((it) =>
    POSITION.test(name) ? it.index === Number(name) : it.data === name,
  );
  const [parameter, another] = named.filter((it) => isReadable(it, kind));
  if (!another) return parameter && ofParameter(parameter, kind, p.path.slice(1));
  const choices = named.map((it) => {
    const source = decoratorSource(it, kind);
    return `<${source ? `${source}.${name}` : it.index}>`;
  });
  return `may be one of ${named.length} parameters; write ${choices.join(' or ')}.`;
}

function ofParameter(declared: HandlerParameter, kind: HandlerKind, rest: readonly string[]): ValueSource {
  const { index, data } = declared;
  const source = decoratorSource(declared, kind);
  return {
    inArguments: (args) => valueAtPath(args[index], rest),
    inRequest: (context, values) => andThen(values.read(declared, context), (it) => valueAtPath(it, rest)),
    part: source && partName([source, ...(typeof data === 'string' ? [data] : []), ...rest]),
  };
}

/** The name of the source that a decorated parameter reads; `undefined` for a custom decorator of the application. */
function decoratorSource({ type }: HandlerParameter, kind: HandlerKind): string | undefined {
  return Object.entries(SOURCES[kind]).find(([, number]) => number !== undefined && number === type)?.[0];
}

function partName([source = '', ...path]: readonly string[]): string | undefined {
  if (source === 'user') return undefined;
  const name = path.join('.').replaceAll(`.${EACH}`, EACH);
  if (source === 'headers') return `header ${name}`;
  return name === '' ? source : `${source}.${name}`;
}

function offerOf({ kind, decorated, site }: KeyPlan): string {
  if (kind) {
    const names = decorated
      .filter((it) => isReadable(it, kind))
      .flatMap(({ data }) => (typeof data === 'string' ? [data] : []));
    return names.length > 0 ? `the handler reads: ${names.join(', ')}` : 'the handler reads nothing by name';
  }
  const { parameters, gap } = site.signature;
  const names = parameters.flatMap(({ name }) => name ?? []);
  const known = names.length > 0 ? `the method's arguments are: ${names.join(', ')}` : undefined;
  if (gap === undefined) return known ?? 'the method has no arguments with a name';
  return [known, gap].filter(Boolean).join('; ');
}

function planError({ where, site }: KeyPlan, text: string): LockConfigurationError {
  return new LockConfigurationError(`${site.decorator} on ${where}: ${text}`);
}

/** @throws LockConfigurationError for options that work on a plain method but not on a handler */
function checkHandler(plan: KeyPlan): void {
  const { site, kind } = plan;
  const { onBusy, when } = plan.options;
  if (site.inner) {
    throw planError(
      plan,
      `there are two on one handler, and only the upper one is around its pipes and interceptors. Write one for both keys: ${bothKeys(site)}.`,
    );
  }
  if (onBusy === 'skip' && kind === 'http') {
    throw planError(
      plan,
      `onBusy 'skip' would answer 200 with nothing; give a function that makes the answer.`,
    );
  }
  if (typeof site.key === 'function') checkArguments(plan, 'key', site.key);
  if (typeof onBusy === 'function') checkArguments(plan, 'onBusy', onBusy);
  if (when) checkArguments(plan, 'when', when);
}

function bothKeys(site: LockedSite): string {
  const keys = [site.key, site.inner?.key].map((key) =>
    typeof key === 'object' ? key.map(templateCode).join(', ') : undefined,
  );
  return keys.includes(undefined) ? 'a key function that returns a list' : `@Locked([${keys.join(', ')}])`;
}

/** A template as one writes it in `@Locked`. */
function templateCode({ text, claim }: KeyTemplate): string {
  if (claim?.permits === undefined) return claim?.mode ? `${claim.mode}('${text}')` : `'${text}'`;
  return `permits('${text}', ${claim.permits}, ${claim.weight})`;
}

/**
 * Checks that the source of `fn` shows which arguments it takes, and that each of them can be read before Nest calls the handler.
 */
function checkArguments(plan: KeyPlan, role: 'key' | 'onBusy' | 'when', fn: AnyFunction): void {
  const { parameters, gap } = signatureOf(fn);
  if (parameters.some((it) => it.kind === 'open')) {
    throw planError(
      plan,
      `the ${role} function has a default or a rest parameter; a handler's must name each argument plainly.`,
    );
  }
  if (gap !== undefined) {
    throw planError(
      plan,
      `it cannot be read which arguments the ${role} function takes, as it is bound, wrapped, or has a "/" between its parentheses. Write a plain function around it that names each of them.`,
    );
  }
  // The first argument of `onBusy` is the error, which is not read from the request.
  const count = role === 'onBusy' ? fn.length - 1 : fn.length;
  const { decorated, kind } = plan;
  const missing = decorated.find((it) => it.index < count && kind && !isReadable(it, kind));
  if (!missing) return;
  throw planError(
    plan,
    `argument ${missing.index} of the handler is not there yet when the ${role} function is called.`,
  );
}
