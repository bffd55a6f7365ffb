import { LockConfigurationError } from '../port/lock.errors.js';
import { refuseStandard } from '../options/standard-decorators.js';
import type { Term } from './leader.js';

const SLOTS = Symbol.for('nestjs-distributed-lock/term-slots');

/**
 * The `Term` in which this call of an `@OnlyLeader` method runs. Callers leave the argument out, so write `term?: Term` on
 * methods that other code calls.
 *
 * @throws LockConfigurationError on a parameter of a constructor, when the class is loaded; at boot on a method without
 * `@OnlyLeader`
 */
export function CurrentTerm(): ParameterDecorator {
  return (target, method, index) => {
    refuseStandard('@CurrentTerm', method);
    if (method === undefined || typeof index !== 'number') {
      throw new LockConfigurationError('@CurrentTerm belongs on a parameter of an @OnlyLeader method.');
    }
    Reflect.defineMetadata(SLOTS, [...slotsOf(target, method), index], target, method);
  };
}

/** The arguments with the term in the slots that the caller has left out. */
export function fillTerm(
  { target, method }: { readonly target: object; readonly method: string | symbol },
  args: readonly unknown[],
  term: Term,
): readonly unknown[] {
  const filled = [...args];
  for (const index of slotsOf(target, method)) filled[index] ??= term;
  return filled;
}

/** @param prototype that has the method itself */
export function takesTerm(prototype: object, method: string): boolean {
  return slotsOf(prototype, method).length > 0;
}

function slotsOf(target: object, method: string | symbol): readonly number[] {
  return (Reflect.getOwnMetadata(SLOTS, target, method) as readonly number[] | undefined) ?? [];
}
