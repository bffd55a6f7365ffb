import { HeldIterator } from './held-iterator.js';
import type { StepSource } from './held-source.js';
import type { StreamHold } from './stream-hold.js';

/** An object that can be iterated, with all that it has besides; it is held for one iteration. */
export function heldIterable<T extends AsyncIterable<unknown>>(
  iterable: T,
  hold: StreamHold,
): readonly [held: T, reader: HeldIterator] {
  const reader = HeldIterator.of(stepsOf(iterable), hold);
  const held = new Proxy(iterable, {
    get(target, name) {
      if (name === Symbol.asyncIterator) return () => reader;
      const member: unknown = Reflect.get(target, name, target);
      // Private fields are on the object itself.
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });
  return [held, reader];
}

/** Opened by the first step, as each may cost something. */
function stepsOf(iterable: AsyncIterable<unknown>): StepSource {
  let opened: AsyncIterator<unknown> | undefined;
  return {
    next: (...args) => (opened ??= iterable[Symbol.asyncIterator]()).next(...(args as [])),
    return: async (value) => (await opened?.return?.(value)) ?? { done: true, value },
  };
}
