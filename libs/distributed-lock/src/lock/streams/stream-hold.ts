import type { HeldLock } from '../context/held-lock.js';
import { runHolding } from '../context/async-context.js';

export interface StreamHoldOptions {
  readonly onLost: 'throw' | 'ignore' | undefined;
  /** What the reader of the stream is told of a loss. */
  readonly lossFor: (loss: unknown) => unknown;
  /** Called once, when nothing of the stream runs any more. */
  readonly onEnd: () => void;
}

/** Readers that were dropped before the end: nobody else could end their streams. */
const dropped = new FinalizationRegistry<() => void>((stop) => stop());

/** The part that a stream has in a lock: it runs in the context of the lock, and is told of a loss, until it has ended. */
export class StreamHold {
  private hasEnded = false;
  private stopListening: (() => void) | undefined;

  constructor(
    private readonly lock: HeldLock,
    private readonly options: StreamHoldOptions,
  ) {}

  /** Each step of a stream is a call of its own, from whatever context: nested calls of it must find the lock. */
  enter<T>(work: () => T): T {
    return runHolding(this.lock, work);
  }

  /** @param listener gets what the reader is to be told, at once */
  onLoss(listener: (error: unknown) => void): void {
    if (this.options.onLost === 'ignore') return;
    this.stopListening = this.lock.onLoss(() => listener(this.options.lossFor(this.lock.loss)));
  }

  /** @throws what the reader is to be told of a loss, also of one that nobody has noticed yet */
  async assertNotLost(): Promise<void> {
    if (this.options.onLost === 'ignore') return;
    if (this.lock.isInDoubt) await this.lock.whenSure();
    const { loss } = this.lock;
    if (loss) throw this.options.lossFor(loss);
  }

  /** @param stop must not lead to `reader`: ends the stream when the garbage collector has found the reader dropped */
  endWith(reader: object, stop: () => void): void {
    dropped.register(reader, stop, this);
  }

  end(): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    dropped.unregister(this);
    this.stopListening?.();
    this.options.onEnd();
  }
}
