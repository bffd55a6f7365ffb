import { inBackground } from '../../async-context/in-background.js';
import type { StreamHold } from './stream-hold.js';

/** Drops an error of closing a stream, which has no reader that could be told. */
const ignore = (): void => undefined;

/**
 * The steps of a stream under its lock. The stream is over after a `done`, an error or a loss, and its share in the lock
 * ends when no other step runs any more. Later steps return `done`.
 *
 * Must not lead to its reader: the garbage collector ends the stream of a reader that is dropped.
 */
export class HeldSource {
  private isOver = false;
  private running = 0;
  /** A loss between two steps, which the next step throws. */
  private failure: { readonly error: unknown } | undefined;
  private readonly waiting = new Set<(error: unknown) => void>();

  constructor(
    private readonly source: StepSource,
    private readonly hold: StreamHold,
  ) {
    hold.onLoss((error) => this.onLoss(error));
  }

  next(...args: readonly unknown[]): Promise<Step> {
    return this.step(
      () => this.source.next(...args),
      () => ({ done: true, value: undefined }),
    );
  }

  return(value?: unknown): Promise<Step> {
    const over = (): Step => ({ done: true, value });
    return this.step(async () => (await this.source.return?.(value)) ?? over(), over);
  }

  throw(error?: unknown): Promise<Step> {
    const fail = (): never => {
      throw error;
    };
    return this.step(async () => (await this.source.throw?.(error)) ?? fail(), fail);
  }

  /** Ends the stream for a reader that does not read on, once the steps that run have ended by themselves. */
  stop(): void {
    inBackground(this.return(), ignore);
  }

  private async step(run: () => PromiseLike<Step>, whenOver: () => Step): Promise<Step> {
    const { failure } = this;
    this.failure = undefined;
    if (failure) throw failure.error;
    if (this.isOver) return whenOver();
    this.running += 1;
    try {
      await this.assertNotLost();
      const step = await this.orLoss(this.hold.enter(async () => run()));
      if (step.done) this.isOver = true;
      await this.assertNotLost();
      return step;
    } catch (error) {
      this.isOver = true;
      throw error;
    } finally {
      this.onStepEnded();
    }
  }

  private async assertNotLost(): Promise<void> {
    try {
      await this.hold.assertNotLost();
    } catch (error) {
      this.closeSource();
      throw error;
    }
  }

  private orLoss(step: Promise<Step>): Promise<Step> {
    return new Promise((resolve, reject) => {
      this.waiting.add(reject);
      step.finally(() => this.waiting.delete(reject)).then(resolve, reject);
    });
  }

  private onLoss(error: unknown): void {
    if (this.isOver) return;
    if (this.waiting.size === 0) this.failure = { error };
    for (const reject of this.waiting) reject(error);
    this.closeSource();
  }

  /** Lets the stream close what it has open, because no step reads on. */
  private closeSource(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.running += 1;
    const closed = this.hold.enter(async () => this.source.return?.());
    const ended = (): void => this.onStepEnded();
    closed.then(ended, ended);
  }

  private onStepEnded(): void {
    this.running -= 1;
    if (this.isOver && this.running === 0) this.hold.end();
  }
}

type Step = IteratorResult<unknown, unknown>;

export interface StepSource {
  next(...args: readonly unknown[]): PromiseLike<Step>;
  return?(value?: unknown): PromiseLike<Step>;
  throw?(error?: unknown): PromiseLike<Step>;
}
