import { MetadataScanner, type DiscoveryService } from '@nestjs/core';
import type { AnyClass } from './metadata.js';

const scanner = new MetadataScanner();

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

/** The methods of the objects of a class, inherited ones included. Calls no getter. */
export function methodsOf(cls: AnyClass): readonly (readonly [name: string, fn: unknown])[] {
  const prototype = cls.prototype as Readonly<Record<string, unknown>>;
  return scanner.getAllMethodNames(prototype).map((name) => [name, prototype[name]]);
}
