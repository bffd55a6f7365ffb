/**
 * Whether one of `others` is `object`, or a Proxy of it or around the same one.
 *
 * Nest's `instanceDecorator` wraps providers, so that a method may run with the Proxy or with what is inside as its `this`.
 * They differ by `===`, and what is written through the one is read through the other.
 */
export function isAmong(others: readonly unknown[], object: object): boolean {
  if (others.includes(object)) return true;
  const mark = Symbol('nestjs-distributed-lock/same-object');
  if (!Reflect.defineProperty(object, mark, { value: true, configurable: true })) return false;
  try {
    return others.some((other) => has(other, mark));
  } finally {
    Reflect.deleteProperty(object, mark);
  }
}

function has(object: unknown, mark: symbol): boolean {
  if (typeof object !== 'object' || object === null) return false;
  try {
    return Object.hasOwn(object, mark);
  } catch {
    // Some Proxies throw where there is no request.
    return false;
  }
}
