import 'reflect-metadata';

/** Built-ins have slots that no Proxy forwards, and so do classes with private members. */
const SLOTS = [Map, Set, WeakMap, WeakSet, Date, Promise, ArrayBuffer, RegExp, Error];

function isProxiable(instance: object): boolean {
  if (SLOTS.some((cls) => instance instanceof cls)) return false;
  for (let proto = instance; proto; proto = Object.getPrototypeOf(proto) as object) {
    const { constructor } = proto as { readonly constructor?: unknown };
    if (typeof constructor === 'function' && /(^|[^\w$])#[\w$]/.test(String(constructor))) return false;
  }
  return true;
}

/**
 * A Proxy as an `instanceDecorator` puts around a provider. Of two calls of its methods one has the Proxy as its `this`, as
 * where a request is traced, and the other what is inside.
 */
export function proxied<T>(instance: T): T {
  if (typeof instance !== 'object' || instance === null || !isProxiable(instance)) return instance;
  let isTraced = false;
  const methods = new WeakMap<object, unknown>();
  return new Proxy(instance, {
    get(target, name, proxy) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function' || name === 'constructor') return value;
      if (/^\s*class\b/.test(Function.prototype.toString.call(value))) return value;
      if (methods.has(value)) return methods.get(value);
      const method = new Proxy(value as (...args: unknown[]) => unknown, {
        apply: (original, _self, args) => {
          isTraced = !isTraced;
          return Reflect.apply(original, isTraced ? proxy : target, args);
        },
      });
      for (const key of Reflect.getMetadataKeys(value) as unknown[])
        Reflect.defineMetadata(key, Reflect.getMetadata(key, value), method);
      methods.set(value, method);
      return method;
    },
  });
}
