import { refuseStandard } from '../options/standard-decorators.js';
import { LockConfigurationError } from '../port/lock.errors.js';
import type { AnyClass } from './metadata.js';

/** Parameters of a method that the decorator of the method fills in where the caller has left the argument out. */
export class ParameterSlots<T> {
  /** @param key made by `Symbol.for`, so that both builds of this package find the slots */
  constructor(private readonly key: symbol) {}

  /** @throws LockConfigurationError on a parameter of a constructor, when the class is loaded */
  decorator(name: string, of: (value: T) => unknown): ParameterDecorator {
    return (target, method, index) => {
      refuseStandard(name, method);
      if (method === undefined || typeof index !== 'number') {
        const where = method === undefined ? 'the constructor' : String(method);
        throw new LockConfigurationError(
          `${name} on ${where} of ${declaringClass(target).name}: it belongs on a parameter of a method.`,
        );
      }
      Reflect.defineMetadata(this.key, [...this.slotsOf(target, method), { index, of }], target, method);
    };
  }

  /** @param target the prototype of the very class that has the method, or that class for a static method */
  has(target: object, method: string | symbol): boolean {
    return this.slotsOf(target, method).length > 0;
  }

  fill(
    { target, method }: { readonly target: object; readonly method: string | symbol },
    args: readonly unknown[],
    value: T,
  ): readonly unknown[] {
    const slots = this.slotsOf(target, method);
    if (slots.length === 0) return args;
    const filled = [...args];
    for (const { index, of } of slots) filled[index] ??= of(value);
    return filled;
  }

  /** The slots that this very class declares, because a method that overrides another one has slots of its own. */
  private slotsOf(target: object, method: string | symbol): readonly Slot<T>[] {
    return (Reflect.getOwnMetadata(this.key, target, method) as readonly Slot<T>[] | undefined) ?? [];
  }
}

interface Slot<T> {
  readonly index: number;
  readonly of: (value: T) => unknown;
}

/** The class of a decorated method or parameter. */
export function declaringClass(target: object): AnyClass {
  return (typeof target === 'function' ? target : target.constructor) as AnyClass;
}
