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
