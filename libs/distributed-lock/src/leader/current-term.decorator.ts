import { ParameterSlots } from '../nest/parameter-slots.js';
import type { Term } from './leader.js';

/** The parameters that get the term. */
export const TERM_SLOTS = new ParameterSlots<Term>(Symbol.for('nestjs-distributed-lock/term-slots'));

/**
 * The `Term` in which this call of an `@OnlyLeader` method runs. Callers leave the argument out, so write `term?: Term` on
 * methods that other code calls.
 *
 * @throws LockConfigurationError on a parameter of a constructor, when the class is loaded; at boot on a method without
 * `@OnlyLeader`
 */
export function CurrentTerm(): ParameterDecorator {
  return TERM_SLOTS.decorator('@CurrentTerm', (term) => term);
}
