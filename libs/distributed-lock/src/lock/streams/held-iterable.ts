import { HeldSource, type StepSource } from './held-source.js';
import type { HeldStream, StreamHold } from './stream-hold.js';

/** Reads an async generator, or any other async iterator, under its lock. */
class HeldIterator implements AsyncIterableIterator<unknown, unknown> {
  readonly #source: HeldSource;

  constructor(iterator: StepSource, hold: StreamHold) {
    this.#source = new HeldSource(iterator, hold);
    hold.stopWithReader(this, this.#source);
  }

  next(...args: readonly unknown[]): Promise<IteratorResult<unknown, unknown>> {
    return this.#source.next(...args);
  }

  return(value?: unknown): Promise<IteratorResult<unknown, unknown>> {
    return this.#source.return(value);
  }

  throw(error?: unknown): Promise<IteratorResult<unknown, unknown>> {
    return this.#source.throw(error);
  }

  stop(): void {
    this.#source.stop();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }
}

/** An iterable object with all its members. The lock is held for one iteration. */
export function heldIterable<T extends AsyncIterable<unknown>>(iterable: T, hold: StreamHold): HeldStream<T> {
  const reader = new HeldIterator(stepsOf(iterable), hold);
  const value = new Proxy(iterable, {
    get(target, name) {
      if (name === Symbol.asyncIterator) return () => reader;
      const member: unknown = Reflect.get(target, name, target);
      // Private fields are on the object itself, not on the Proxy.
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });
  return { value, stop: () => reader.stop() };
}

export function heldIterator(iterator: AsyncIterator<unknown>, hold: StreamHold): HeldStream {
  const value = new HeldIterator(iterator as StepSource, hold);
  return { value, stop: () => value.stop() };
}

/** Opens the iterator at the first step, because to open one may cost something. */
function stepsOf(iterable: AsyncIterable<unknown>): StepSource {
  let opened: AsyncIterator<unknown> | undefined;
  return {
    next: (...args) => (opened ??= iterable[Symbol.asyncIterator]()).next(...(args as [])),
    return: async (value) => (await opened?.return?.(value)) ?? { done: true, value },
  };
}
