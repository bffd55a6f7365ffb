/**
 * True if one of `others` is `object`, a Proxy of it, or the target of it.
 *
 * Nest's `instanceDecorator` wraps providers, so that `this` of a method may be the Proxy or its target. The two differ
 * by `===`, but a property that is written through one is read through the other.
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
    // Some Proxies throw outside of a request.
    return false;
  }
}
