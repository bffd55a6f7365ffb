// What the compiler checks of a `@Locked`: that its key, `onBusy` and `when` fit the method below it. Types only, all of which
// meet in `LockedDecorator`, the type that `Locked` returns.
import type { Observable } from 'rxjs';
import type { KeyValue } from '../keys/key-template.js';
import type { KeyClaim, Keys } from '../lock/request/key-claim.js';
import type { LockedOptions, LockPredicate } from './locked.options.js';

/** A method that can wait for a lock before it runs: it returns a Promise or an Observable, or is an `async *`. */
type LockableMethod = (
  ...args: never[]
) => Promise<unknown> | Observable<unknown> | AsyncGenerator<unknown, unknown, never>;

/** A template, or one with a claim of its own. */
export type LockedTemplate = string | KeyClaim;

/** The key of `@Locked`: a template, several of them, or a function of the arguments. */
export type LockedKey = LockedTemplate | readonly LockedTemplate[] | KeyFunction;

/**
 * Declared as a method, because the compiler compares parameters of methods less strictly, so any function fits.
 * `LockedDecorator` then compares its arguments with the method's.
 */
type KeyFunction = { call(...args: unknown[]): Keys }['call'];

/** The options that the compiler checks against the decorated method. */
export interface CheckedOptions<B extends OnBusy, W extends LockPredicate> {
  readonly onBusy?: B;
  readonly when?: W;
}
export type OnBusy = NonNullable<LockedOptions['onBusy']>;

/** The type that `@Locked` returns. The compiler checks the key and the options against the decorated method. */
export type LockedDecorator<K extends LockedKey, B extends OnBusy, W extends LockPredicate> = <
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
