import type { DiscoveryService } from '@nestjs/core';
import type { AnyClass } from './metadata.js';

export function discoveredClasses(discovery: DiscoveryService): readonly DiscoveredClass[] {
  const wrappers = [...discovery.getControllers(), ...discovery.getProviders()];
  return wrappers.flatMap((wrapper) => {
    // Not by the instance of a class, because the instances of request-scoped classes are empty shells.
    const instance = wrapper.instance as object | null | undefined;
    const cls: unknown = wrapper.isNotMetatype ? instance?.constructor : wrapper.metatype;
    if (typeof cls !== 'function' || typeof cls.prototype !== 'object') return [];
    return { cls: cls as unknown as PrototypedClass, wrapper };
  });
}

type PrototypedClass = AnyClass & { readonly prototype: object };

/** A controller or a provider of the application. */
interface DiscoveredClass {
  readonly cls: PrototypedClass;
  readonly wrapper: ReturnType<DiscoveryService['getProviders']>[number];
}

type Methods = readonly (readonly [name: string | symbol, fn: unknown])[];

/** The methods of the objects of a class, inherited ones and those with a symbol for a name included. Calls no getter. */
export function methodsOf(cls: AnyClass): Methods {
  const methods = new Map<string | symbol, unknown>();
  for (
    let it = cls.prototype as object | null;
    it && it !== Object.prototype;
    it = Object.getPrototypeOf(it)
  ) {
    const inherited = ownFunctions(it).filter(([name]) => !methods.has(name) && name !== 'constructor');
    for (const [name, fn] of inherited) methods.set(name, fn);
  }
  return [...methods];
}

/** The static methods of this very class, or the methods that an object itself has. Calls no getter. */
export function ownFunctions(owner: object): Methods {
  return Reflect.ownKeys(owner).flatMap((name) => {
    const value: unknown = Object.getOwnPropertyDescriptor(owner, name)?.value;
    return typeof value === 'function' ? [[name, value] as const] : [];
  });
}
