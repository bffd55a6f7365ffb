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
