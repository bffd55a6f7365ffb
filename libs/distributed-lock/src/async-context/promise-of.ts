/**
 * As `Promise.try`, which Node 20 does not have: what `work` throws is what the promise rejects with.
 *
 * For functions on the way of each call that are not async, because an async one makes two more promises.
 */
export function promiseOf<T>(work: () => PromiseLike<T> | T): Promise<T> {
  try {
    return Promise.resolve(work());
  } catch (error) {
    return Promise.reject(error as Error);
  }
}
