import { HeldSource, type StepSource } from './held-source.js';
import type { StreamHold } from './stream-hold.js';

/** Reads an async generator, or anything that is read as one, under its lock. */
export class HeldIterator implements AsyncIterableIterator<unknown, unknown> {
  readonly #source: HeldSource;

  constructor(source: HeldSource) {
    this.#source = source;
  }

  static of(iterator: StepSource | AsyncIterator<unknown>, hold: StreamHold): HeldIterator {
    const source = new HeldSource(iterator as StepSource, hold);
    const reader = new HeldIterator(source);
    hold.endWith(reader, () => source.stop());
    return reader;
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

  /** For who does not read on. */
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
