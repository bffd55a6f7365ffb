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

/**
 * Goes on without waiting for `work`. Nothing else in this library may leave a promise alone, because Node ends the process when a
 * promise without a handler rejects.
 */
export function inBackground<T>(
  work: Promise<T>,
  onFailed: (error: unknown) => void,
  onDone?: (value: T) => void,
): void {
  work.then(onDone, onFailed);
}

/**
 * Goes on without waiting for `work`, and ignores its failure. For work that cannot fail, that reports its failures itself, or whose
 * failure changes nothing, such as closing a connection.
 */
export function ignoreFailure(work: Promise<unknown>): void {
  inBackground(work, () => undefined);
}

/** The async context in which this file was loaded, before any request. */
const nowhere = new AsyncResource('nestjs-distributed-lock');

/**
 * Runs `work` outside of every async context, the application's and ours.
 *
 * For timers, sockets and commands, which outlive a call or serve many calls. A timer keeps everything alive that the
 * AsyncLocalStorages contain where it is made, and runs its task with that content.
 */
export function withoutContext<T>(work: () => T): T {
  return nowhere.runInAsyncScope(work);
}
