import { AsyncResource } from 'node:async_hooks';

/**
 * A value, or the promise of one.
 *
 * Most requests need nothing asynchronous to make their key, so they ask for their lock in the turn of the event loop in which they came.
 * Each promise on the way would cost a request some 0.2 µs, and more with an AsyncLocalStorage.
 */
export type MaybePromise<T> = T | PromiseLike<T>;

/** Calls `work` with the value: now if it is there, otherwise as soon as its promise resolves. */
export function andThen<T, R>(value: MaybePromise<T>, work: (value: T) => MaybePromise<R>): MaybePromise<R> {
  return isPromiseLike(value) ? Promise.resolve(value).then(work) : work(value);
}

/**
 * Reads all of `items` at the same time. If `read` throws for one of them, the promises of the others are still awaited, so no
 * rejection goes unhandled.
 */
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
 * Does what `Promise.try` does, which Node 20 lacks: if `work` throws, the promise rejects.
 *
 * For functions that every call runs. They are not `async`, because an async function makes two more promises.
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
 * Goes on without waiting for `work`. Nothing else in this library may do so, because Node ends the process when a promise without a
 * handler rejects.
 */
export function inBackground(work: NeverRejects<unknown>): void;
export function inBackground(work: Promise<unknown>, onFailed: (error: unknown) => void): void;
export function inBackground(work: Promise<unknown>, onFailed?: (error: unknown) => void): void {
  if (onFailed) work.then(undefined, onFailed);
}

/** A promise that never rejects. Its failures are values or events. */
export type NeverRejects<T> = Promise<T> & { readonly [OWNED]: true };

/** The async context in which this file was loaded, before any request. */
const nowhere = new AsyncResource('nestjs-distributed-lock');

/**
 * Runs `work` outside of every async context, the application's and ours.
 *
 * For timers, sockets and commands, which outlive a call or serve many calls. A timer keeps everything alive that the
 * AsyncLocalStorages contain where it is made, and runs its task with that content.
 */
export function detached<T>(work: () => T): T {
  return nowhere.runInAsyncScope(work);
}
