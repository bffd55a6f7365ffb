import { AsyncResource } from 'node:async_hooks';

/**
 * A value, or the promise of one.
 *
 * A request whose key needs nothing asynchronous reaches its lock in the turn in which it came: each promise on that way
 * would cost every request some 0.2 µs, more with an AsyncLocalStorage.
 */
export type MaybePromise<T> = T | PromiseLike<T>;

/** Calls `work` with the value: at once if it is there, otherwise when it is. */
export function andThen<T, R>(value: MaybePromise<T>, work: (value: T) => MaybePromise<R>): MaybePromise<R> {
  return isPromiseLike(value) ? Promise.resolve(value).then(work) : work(value);
}

/** Reads all of `items`, which may wait side by side. An error of one does not leave the promises of the others alone. */
export function readAll<I, T>(
  items: readonly I[],
  read: (item: I) => MaybePromise<T>,
): MaybePromise<readonly T[]> {
  const values = items.map((item): MaybePromise<T> => {
    try {
      return read(item);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  });
  return values.some(isPromiseLike) ? Promise.all(values) : (values as readonly T[]);
}

export function isPromiseLike<T>(value: MaybePromise<T>): value is PromiseLike<T> {
  return typeof (value as Partial<PromiseLike<T>> | null | undefined)?.then === 'function';
}

/**
 * As `Promise.try`, which Node 20 does not have: what `work` throws is what the promise rejects with.
 *
 * For the functions that every call runs. They are not `async`, because an async function makes two more promises.
 */
export function promiseOf<T>(work: () => PromiseLike<T> | T): Promise<T> {
  try {
    return Promise.resolve(work());
  } catch (error) {
    return Promise.reject(error as Error);
  }
}

declare const OWNED: unique symbol;

/**
 * Goes on without waiting for `work`. This is the only way to do so in this library, because Node ends the process when a
 * promise without a handler rejects.
 */
export function inBackground(work: NeverRejects<unknown>): void;
export function inBackground(work: Promise<unknown>, onFailed: (error: unknown) => void): void;
export function inBackground(work: Promise<unknown>, onFailed?: (error: unknown) => void): void {
  if (onFailed) work.then(undefined, onFailed);
}

/** A promise that never rejects. Failures are values or events. */
export type NeverRejects<T> = Promise<T> & { readonly [OWNED]: true };

/** The async context in which this file is loaded, before any request. */
const nowhere = new AsyncResource('nestjs-distributed-lock');

/**
 * Runs `work` outside of every async context, the application's and ours.
 *
 * For timers, sockets and commands, which outlive a call or serve many. A timer keeps the content of every
 * AsyncLocalStorage where it is made, and runs its task with that content.
 */
export function detached<T>(work: () => T): T {
  return nowhere.runInAsyncScope(work);
}
