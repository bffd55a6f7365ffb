import { inBackground } from '../../async/in-background.js';
import type { StreamHold } from './stream-hold.js';

type Step = IteratorResult<unknown, unknown>;

/** What a stream is read from, one step at a time. */
export interface StepSource {
  next(...args: readonly unknown[]): PromiseLike<Step>;
  return?(value?: unknown): PromiseLike<Step>;
  throw?(error?: unknown): PromiseLike<Step>;
}

/** An error in closing what nobody reads. */
const ignore = (): void => undefined;

/**
 * The steps of a stream under its lock. Ends with the last of them: after a `done`, an error or a loss, once no other
 * step runs. Later ones find nothing more.
 *
 * Must not lead to its reader: a reader that is dropped ends it.
 */
export class HeldSource {
  private isOver = false;
  private running = 0;
  /** What the next reader is told, once. */
  private failure: { readonly error: unknown } | undefined;
  private readonly waiting = new Set<(error: unknown) => void>();

  constructor(
    private readonly source: StepSource,
    private readonly hold: StreamHold,
  ) {
    hold.onLoss((error) => this.lose(error));
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

  /** For who does not read on: what runs still ends by itself, and then the stream does. */
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
      this.ended();
    }
  }

  private assertNotLost(): Promise<void> {
    return this.hold.assertNotLost().catch((loss: unknown) => this.giveUp(loss));
  }

  private orLoss(step: Promise<Step>): Promise<Step> {
    return new Promise((resolve, reject) => {
      this.waiting.add(reject);
      step.finally(() => this.waiting.delete(reject)).then(resolve, reject);
    });
  }

  private lose(error: unknown): void {
    if (this.isOver) return;
    if (this.waiting.size === 0) this.failure = { error };
    for (const reject of this.waiting) reject(error);
    inBackground(this.giveUp(error), ignore);
  }

  /** Nobody reads on: what the stream has open it closes by itself. */
  private async giveUp(error: unknown): Promise<never> {
    if (!this.isOver) {
      this.isOver = true;
      this.running += 1;
      const closed = this.hold.enter(async () => this.source.return?.());
      closed.then(
        () => this.ended(),
        () => this.ended(),
      );
    }
    throw error;
  }

  private ended(): void {
    this.running -= 1;
    if (this.isOver && this.running === 0) this.hold.end();
  }
}
