import type { AnyFunction } from './metadata.js';

/**
 * A method that calls `call` in place of `original`, with the name, the length and the metadata of `original`, which Swagger,
 * timers and others read. Decorators above find what decorators below have written.
 */
export function wrapMethod(
  original: AnyFunction,
  call: (self: unknown, args: readonly unknown[]) => unknown,
): AnyFunction {
  const wrapped = new Proxy(original, {
    apply: (_target, self: unknown, args: readonly unknown[]) => call(self, args),
  });
  for (const name of Reflect.getOwnMetadataKeys(original)) {
    Reflect.defineMetadata(name, Reflect.getOwnMetadata(name, original), wrapped);
  }
  return wrapped;
}
