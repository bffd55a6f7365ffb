import type { Observable } from 'rxjs';
import { injectLockService } from '../distributed-lock.tokens.js';
import type { Lock } from '../lock/lock.js';
import { isKeyClaim, type KeyClaim, type Keys } from '../lock/request/key-claim.js';
import { KeyTemplate, type KeyValue } from '../keys/key-template.js';
import { type AnyFunction, enhancers, refuseStandard, wrapMethod } from '../nest/metadata.js';
import { declaringClass, ParameterSlots } from '../nest/parameter-names.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import { describeGiven } from '../port/option-checks.js';
import { callLocked } from './call.js';
import { ExpectedNestCall } from './handler-run.js';
import { LockedInterceptor } from './locked.interceptor.js';
import { type LockedSite, newLockedSite, putSite } from './lock-plan.js';
import { checkLockedOptions, type LockedOptions, type LockPredicate } from './locked.options.js';

/** A method that can wait for a lock before it runs: it returns a Promise or an Observable, or is an `async *`. */
type LockableMethod = (
  ...args: never[]
) => Promise<unknown> | Observable<unknown> | AsyncGenerator<unknown, unknown, never>;

/** A template, or one with a claim of its own. */
type LockedTemplate = string | KeyClaim;

/** The key of `@Locked`: a template, several of them, or a function of the arguments. */
type LockedKey = LockedTemplate | readonly LockedTemplate[] | KeyFunction;

/**
 * Declared as a method, because the compiler compares parameters of methods less strictly, so any function fits.
 * `LockedDecorator` then compares its arguments with the method's.
 */
type KeyFunction = { call(...args: unknown[]): Keys }['call'];

/** The options that the compiler checks against the decorated method. */
interface CheckedOptions<B extends OnBusy, W extends LockPredicate> {
  readonly onBusy?: B;
  readonly when?: W;
}
type OnBusy = NonNullable<LockedOptions['onBusy']>;

/** The type that `@Locked` returns. The compiler checks the key and the options against the decorated method. */
type LockedDecorator<K extends LockedKey, B extends OnBusy, W extends LockPredicate> = <
  M extends LockableMethod,
  C extends object,
>(
  target: C,
  name: string | symbol,
  descriptor: TypedPropertyDescriptor<M> &
    CheckKey<K, M> &
    CheckResult<M> &
    CheckSkip<B, M> &
    CheckBusy<B, M, C> &
    CheckWhen<W, M>,
) => void;

type Fine = unknown;
/**
 * A property that no method descriptor has. The compiler refuses the decorator, and prints the name and the type of the property as
 * the reason.
 */
type Mistake<Where extends string, What extends string> = { readonly [K in Where as `'${K}'`]: What };

type CheckArguments<
  A extends unknown[],
  M extends LockableMethod,
  Where extends string,
  What extends string,
> = Parameters<M> extends readonly [...A, ...unknown[]] ? Fine : Mistake<Where, What>;

type CheckKey<K extends LockedKey, M extends LockableMethod> = K extends
  | LockedTemplate
  | readonly LockedTemplate[]
  ? CheckTemplates<K, M>
  : K extends (...args: infer A extends unknown[]) => Keys
    ? CheckArguments<A, M, 'key function', 'takes other arguments than the method'>
    : Fine;

type CheckTemplates<S extends LockedTemplate | readonly LockedTemplate[], M extends LockableMethod> = [
  S extends LockedTemplate
    ? WrongPart<TextOf<S>, M>
    : S extends readonly LockedTemplate[]
      ? { [I in keyof S]: WrongPart<TextOf<S[I]>, M> }[number]
      : never,
] extends [infer Wrong extends string]
  ? [Wrong] extends [never]
    ? Fine
    : Mistake<'key template', Wrong>
  : Fine;

type TextOf<T> = T extends KeyClaim<infer Text> ? Text : T & string;

/** The first wrong part of a template, with the reason; `never` for a right template, or one that is not a literal. */
type WrongPart<S extends string, M extends LockableMethod> = S extends `${string}<${infer Tail}`
  ? Tail extends `${infer Path}>${infer Rest}`
    ? WrongPath<Path extends `${infer P}|${string}` ? P : Path, M> | WrongPart<Rest, M>
    : `"${S}" has an unclosed "<"`
  : never;

/** Checks positions, as in `<0.sku>`. The compiler does not know the names of parameters, so those are checked at boot. */
type WrongPath<Path extends string, M extends LockableMethod> =
  HeadOf<Path> extends `${number}` ? Check<Path, AtPath<Parameters<M>, Path>> : never;

type HeadOf<Path extends string> = Path extends `${infer Head}.${string}`
  ? HeadOf<Head>
  : Path extends `${infer List}[]`
    ? List
    : Path;

type Check<Path extends string, V> = 0 extends 1 & V
  ? never
  : [V] extends [never]
    ? `"<${Path}>": the method has no such argument or property`
    : [V] extends [KeyValue]
      ? never
      : `"<${Path}>": a key needs a string, number, bigint or boolean that is always there`;

type At<T, Key extends string> = 0 extends 1 & T ? T : Key extends keyof T ? T[Key] : never;

type ElementOf<T> = 0 extends 1 & T ? T : T extends readonly (infer E)[] ? E : never;

type AtPath<T, Path extends string> = Path extends `${infer Head}.${infer Rest}`
  ? AtPath<AtStep<T, Head>, Rest>
  : AtStep<T, Path>;

type AtStep<T, Step extends string> = Step extends `${infer List}[]` ? ElementOf<At<T, List>> : At<T, Step>;

/** Refuses a method that returns a generator: the body of a generator runs only while somebody reads it, and cannot wait for a lock. */
type CheckResult<M extends LockableMethod> = 0 extends 1 & Awaited<ReturnType<M>>
  ? Fine
  : [Awaited<ReturnType<M>>] extends [never]
    ? Fine
    : Awaited<ReturnType<M>> extends Generator<unknown, unknown, never>
      ? Mistake<'result', 'a generator would go on after the release: make it an async generator'>
      : Fine;

type CheckSkip<B extends OnBusy, M extends LockableMethod> = [B] extends ['skip']
  ? undefined extends Awaited<ReturnType<M>>
    ? Fine
    : ReturnType<M> extends AsyncGenerator<unknown, unknown, never>
      ? Fine
      : Mistake<'onBusy', 'a skipped call gives undefined, which the method does not'>
  : Fine;

/** Compares a function given as `onBusy` with the method in whose place it answers. */
type CheckBusy<B extends OnBusy, M extends LockableMethod, C extends object> = [B] extends [
  (this: infer T, busy: never, ...args: infer A extends unknown[]) => infer R,
]
  ? CheckArguments<A, M, 'onBusy', 'takes other arguments after the error than the method'> &
      ([Awaited<R>] extends [AnswerFor<Awaited<ReturnType<M>>>]
        ? Fine
        : Mistake<'onBusy', 'gives another result than the method'>) &
      (C extends T ? Fine : Mistake<'onBusy', 'its `this` is another class than that of the method'>)
  : Fine;

/** The answers that `onBusy` may give for a method with the result `R`. */
type AnswerFor<R> =
  R extends AsyncGenerator<infer V, unknown, never>
    ? (object & (AsyncIterable<V> | Iterable<V>)) | undefined | void
    : R extends Observable<infer V>
      ? R | V
      : void extends R
        ? unknown
        : undefined extends R
          ? R | void
          : R;

type CheckWhen<W extends LockPredicate, M extends LockableMethod> = W extends (
  ...args: infer A extends unknown[]
) => unknown
  ? CheckArguments<A, M, 'when', 'takes other arguments than the method'>
  : Fine;

/**
 * Runs the method under a lock: acquires it before, renews it while the method runs, releases it when it has ended.
 *
 * The key is a template, several templates (all are held, acquired in one order everywhere), or a function of the arguments. A template
 * in `shared(…)`, `exclusive(…)` or `permits(…)` makes keys that are held that way, whatever the options say.
 *
 * - On handlers `<id>` is the parameter that the handler reads by that name, through the same pipes. `<params.id>`,
 *   `<query.x>`, `<body.a.b>`, `<headers.x>`, `<user.id>`, `<data.x>` name a source. The pipes of a named parameter run twice
 *   in a request, so they must be cheap and without effects. The lock is around the interceptors of the method and its class.
 * - On any other method of a provider `<id>` is the argument of that name, and `<0.sku>` a property of one by position.
 *
 * A call that gets no lock rejects, and the method does not run: `LockWaitTimeoutError` when the key is not free within
 * `waitMs` (423 on HTTP, see `onBusy`), `LockStoreError` (503), `LockShutdownError` (503), `LockKeyError` (400). A call whose
 * lock is lost while it runs rejects with `LockLostError` (503, see `onLost`).
 *
 * A name that the method does not have stops the boot. Without a `DistributedLockModule` the call fails, and never runs
 * without the lock. Other decorators may stand above or below.
 *
 * A result that goes on producing (an async generator, a web or Node stream, a `Response`, a `StreamableFile`) holds the
 * lock until it has ended or its reader has left it. An `async *` method acquires when its first value is asked for.
 *
 * @param key a template, a list of templates, or a function of the method's arguments that returns one key or several
 * @param options those of `LockedOptions`; what is left out comes from `LockDefaults` of the class, then from the module
 * @throws LockConfigurationError for a mistake in a template or an option, when the class is loaded; for an option it names the method
 * @example
 * ```ts
 * class Goods {@Locked('goods:<id>', { waitMs: 2000 }) async buy(id: string, count: number): Promise<void> {}}
 * ```
 */
export function Locked<
  const K extends LockedKey,
  B extends OnBusy = OnBusy,
  W extends LockPredicate = LockPredicate,
>(key: K, options?: LockedOptions & CheckedOptions<B, W>): LockedDecorator<K, B, W>;
export function Locked(key: LockedKey, options: LockedOptions = {}): MethodDecorator {
  const source = keySource(key);
  return (target, method, descriptor: PropertyDescriptor | undefined) => {
    refuseStandard('@Locked', method);
    const original = descriptor?.value as AnyFunction | undefined;
    const declaredIn = declaringClass(target);
    if (!descriptor || typeof original !== 'function') {
      const what = method === undefined ? 'a class' : 'not a method';
      const where = method === undefined ? declaredIn.name : `${declaredIn.name}.${String(method)}`;
      throw new LockConfigurationError(
        `@Locked on ${where}: this is ${what}. Put it on the methods that are to be locked.`,
      );
    }
    checkLockedOptions(`@Locked on ${declaredIn.name}.${String(method)}`, options, source);
    const site = newLockedSite({ target, method, original }, { key: source, options });
    const wrapped = wrapMethod(original, (self, args) => {
      const run = (lock: Lock | undefined): unknown =>
        Reflect.apply(original, self, lock ? LOCK_SLOTS.fill({ target, method }, args, lock) : args);
      // Nest's own call of a handler has its lock already. Any other call acquires one.
      const nestCall = ExpectedNestCall.of(site, args);
      return nestCall ? nestCall.run(run) : callLocked({ site, self, args, run });
    });
    putSite(wrapped, site);
    descriptor.value = wrapped;
    if (site.isStatic) return;
    // Put the lock first, which is outermost. @UseInterceptors appends to this list, whether above or below @Locked, so its
    // interceptors run inside.
    enhancers.putFirst('interceptors', LockedInterceptor, wrapped);
    injectLockService(target, options.name);
  };
}

function keySource(key: LockedKey): LockedSite['key'] {
  if (typeof key === 'function') return key;
  const templates: unknown = isTemplate(key) ? [key] : key;
  if (!Array.isArray(templates) || !templates.every(isTemplate)) {
    const description = Array.isArray(templates)
      ? 'a list with something else in it'
      : describeGiven(templates);
    throw new LockConfigurationError(
      `@Locked takes a key template, a list of them or a function of the arguments; it was given ${description}. Write @Locked('order:<id>').`,
    );
  }
  if (templates.length === 0) throw new LockConfigurationError('@Locked needs at least one key.');
  return templates.map((template) => KeyTemplate.compile(template));
}

function isTemplate(value: unknown): value is LockedTemplate {
  return typeof value === 'string' || (isKeyClaim(value) && typeof value.key === 'string');
}

/**
 * Records which parameters of a method are decorated with `@CurrentLock()` or `@LockSignal()`, so that the wrapper fills them in.
 */
export const LOCK_SLOTS = new ParameterSlots<Lock>(Symbol.for('nestjs-distributed-lock/slots'));

/**
 * The lock that this call of a `@Locked` method holds. Pipes do not get it.
 *
 * Callers leave the argument out, so write `lock?: Lock` on methods that other code calls. It is `undefined` when the option
 * `when` has decided that no lock is needed. If the method has no `@Locked`, the boot fails.
 *
 * @example
 * ```ts
 * class Stock {@Locked('stock') async count(@CurrentLock() lock?: Lock) { return lock?.fencingToken; }}
 * ```
 */
export function CurrentLock(): ParameterDecorator {
  return LOCK_SLOTS.decorator('@CurrentLock', (lock) => lock);
}

/**
 * The signal of the lock that this call of a `@Locked` method holds. It aborts when the lock is lost.
 *
 * @example
 * ```ts
 * class Rates {@Locked('rates') async load(@LockSignal() signal?: AbortSignal) { return fetch('https://rates.example', { signal }); }}
 * ```
 */
export function LockSignal(): ParameterDecorator {
  return LOCK_SLOTS.decorator('@LockSignal', (lock) => lock.signal);
}
