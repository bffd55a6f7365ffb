import type { HeldLock } from '../core/held-lock.js';
import { runHolding } from '../core/async-context.js';

/** Stops the source of a reader that was dropped before the end. Nothing else could end such a stream. */
const dropped = new FinalizationRegistry<{ stop(): void }>((source) => source.stop());

/** The share of one stream in a lock: the stream runs in the context of the lock, and learns of a loss, until it ends. */
export class StreamHold {
  private hasEnded = false;
  private stopListening: (() => void) | undefined;

  constructor(
    private readonly lock: HeldLock,
    private readonly options: StreamHoldOptions,
  ) {}

  /** Runs one step of the stream in a flow that has the lock, whatever flow asks for the step. */
  enter<T>(work: () => T): T {
    return runHolding(this.lock, work);
  }

  /** @param listener gets the error for the reader when the lock is lost */
  onLoss(listener: (error: unknown) => void): void {
    if (this.options.onLost === 'ignore') return;
    this.stopListening = this.lock.onLoss((loss) => listener(this.errorFor(loss)));
  }

  /** @throws the error for the reader if the lock is lost, also by a loss that was not noticed before */
  async assertNotLost(): Promise<void> {
    if (this.options.onLost === 'ignore') return;
    if (this.lock.isInDoubt()) await this.lock.whenSure();
    const loss = this.lock.noticeLoss();
    if (loss) throw this.errorFor(loss);
  }

  /** @param source must not lead to `reader`: the garbage collector has to find the reader dropped */
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
  readonly onLost: 'throw' | 'ignore' | undefined;
  /** The error that the reader of the stream gets for a loss; default: the loss itself. */
  readonly lossFor?: (loss: unknown) => unknown;
  /** Called once, when nothing of the stream runs any more. */
  readonly onEnd: () => void;
}

export interface HeldStream<T = unknown> {
  /** The caller reads it in place of the stream. It is the same object where that is possible. */
  readonly value: T;
  /** Ends the stream for a reader that does not read on. */
  stop(): void;
}
