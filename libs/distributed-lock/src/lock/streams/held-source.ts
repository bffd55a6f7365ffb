import { ignoreFailure } from '../../common/promises.js';
import { runHolding } from '../core/async-context.js';
import type { HeldLock } from '../core/held-lock.js';

/**
 * Runs the steps (`next`, `return`, `throw`) of a stream under its lock. After a `done`, an error or a loss the stream is over: later steps
 * return `done`, and its share in the lock ends as soon as no step is running.
 *
 * Must hold no reference to its reader. If the application drops the reader, the garbage collector must be able to find that out, and then
 * ends the stream.
 */
export class HeldSource {
  private isOver = false;
  private running = 0;
  /** The error of a loss that came while no step was running. The next step throws it. */
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

  /** Ends the stream if its reader does not read on, after the steps that are running have ended by themselves. */
  stop(): void {
    ignoreFailure(this.return());
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

  /** Calls `return` of the source, so that it closes its files and connections, because nobody reads on. */
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

/** Stops the source if its reader was garbage-collected before the end. Nothing else could end such a stream. */
const dropped = new FinalizationRegistry<{ stop(): void }>((source) => source.stop());

/**
 * The share of one stream in a lock. Until it ends, the steps of the stream run in a flow that has the lock, and the stream is notified
 * of a loss.
 */
export class StreamHold {
  private hasEnded = false;
  private stopListening: (() => void) | undefined;

  constructor(
    private readonly lock: HeldLock,
    private readonly options: StreamHoldOptions,
  ) {}

  /** Runs one step of the stream in a flow that has the lock, even if the reader that asks for it is in another flow. */
  enter<T>(work: () => T): T {
    return runHolding(this.lock, work);
  }

  /** Calls `listener` when the lock is lost. @param listener gets the error to pass to the reader */
  onLoss(listener: (error: unknown) => void): void {
    if (this.options.onLost === 'ignore') return;
    this.stopListening = this.lock.onLoss((loss) => listener(this.errorFor(loss)));
  }

  /** @throws the error for the reader if the lock is lost. Checks the lease, so it finds a loss that nobody has noticed yet. */
  async assertNotLost(): Promise<void> {
    if (this.options.onLost === 'ignore') return;
    if (this.lock.isInDoubt()) await this.lock.whenSure();
    const loss = this.lock.noticeLoss();
    if (loss) throw this.errorFor(loss);
  }

  /** Stops the source when `reader` is garbage-collected. @param source must hold no reference to `reader`, which would keep it alive */
  stopWithReader(reader: object, source: { stop(): void }): void {
    dropped.register(reader, source, this);
  }

  end(): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    dropped.unregister(this);
    this.stopListening?.();
    this.options.onEnd();
  }

  private errorFor(loss: unknown): unknown {
    return this.options.lossFor?.(loss) ?? loss;
  }
}

export interface StreamHoldOptions {
  /** The method that returned the stream, for messages: `Orders.rows`. */
  readonly where: string;
  /**
   * Who reads the stream. A caller may read it in any way, Nest reads it in only one way, and over some transports nobody reads it.
   */
  readonly readBy: 'caller' | 'nest' | 'nobody';
  readonly onLost: 'throw' | 'ignore' | undefined;
  /** Turns a loss into the error that the reader of the stream gets; default: the loss itself. */
  readonly lossFor?: (loss: unknown) => unknown;
  /** Called once, when no code of the stream is running any more. */
  readonly onEnd: () => void;
}

export interface HeldStream<T = unknown> {
  /** The stream that the caller reads in place of the given one. The same object if that is possible. */
  readonly value: T;
  /** Ends the stream for a reader that does not read on. */
  stop(): void;
}
