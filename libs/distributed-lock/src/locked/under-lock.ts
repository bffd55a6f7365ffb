import { Subscription, type Observer, type Subscriber } from 'rxjs';
import type { HeldLock } from '../lock/core/held-lock.js';
import { inBackground } from '../async-context/in-background.js';
import type { Answer } from './answers.js';
import type { LockLostError } from '../port/lock.errors.js';
import { holdStream, type StreamOrigin } from '../lock/streams/held-stream.js';

/**
 * Runs work under a lock that is held already. Gives the lock back when the Observable of the work has ended *and* no part
 * of the work runs any more, streams that have gone out as its values and an answer that it sends itself included.
 *
 * Unsubscribing stops a stream. Other work runs on under the lock until it has ended by itself. A loss is passed on at
 * once unless `onLost` is `'ignore'`. An error of the work that comes first wins.
 */
export class UnderLock<T> implements Observer<T> {
  private readonly running = new Subscription();
  private readonly held: T[] = [];
  private isStream = false;
  private hasLeft = false;
  private hasEnded = false;
  private run: Run | undefined;
  private readonly streamsOut: unknown[] = [];
  /** How many streams that were passed on, and answers that the work sends itself, still hold the lock. */
  private open = 0;
  private answer: Answer | undefined;

  constructor(
    private readonly out: Subscriber<T>,
    private readonly lock: HeldLock,
    private readonly options: UnderLockOptions,
  ) {}

  /** @param subscribe starts the work in the context of the lock */
  start(subscribe: (observer: Observer<T>) => Subscription, run?: Run): void {
    this.run = run;
    try {
      this.lock.assertHeld();
      if (this.options.onLost === 'throw') this.running.add(this.lock.onLoss((loss) => this.onLoss(loss)));
      this.running.add(subscribe(this));
    } catch (error) {
      this.error(error);
    }
  }

  /** The result is a stream, so unsubscribing ends it from now on. */
  streams(): void {
    this.isStream = true;
    if (this.hasLeft) this.stop();
  }

  leave(): void {
    this.hasLeft = true;
    if (this.isStream) this.stop();
  }

  releaseIfDone(): void {
    if (this.hasEnded && this.open === 0 && !this.run?.isRunning) this.lock.releaseInBackground();
  }

  /**
   * Lets a value that goes on producing hold the lock until it has ended.
   *
   * @returns the value that goes out in its place
   * @throws LockConfigurationError for a stream that cannot be held
   */
  hold(value: unknown): unknown {
    const { streams, onLost, lossFor } = this.options;
    if (!streams || this.streamsOut.includes(value)) return value;
    const onEnd = (): void => {
      this.open -= 1;
      this.releaseIfDone();
    };
    const held = holdStream(value, this.lock, { ...streams, onLost, lossFor, onEnd });
    if (!held) return value;
    this.open += 1;
    this.streamsOut.push(held.value);
    streams.whenLeft(() => held.stop());
    return held.value;
  }

  /** Passes a value on at the end of the turn, so that a release of the same turn is ahead of the next request of the client. */
  next(value: T): void {
    try {
      const out = this.hold(value) as T;
      if (this.isStream) this.out.next(out);
      else if (this.held.push(out) === 1) queueMicrotask(() => this.flush());
    } catch (error) {
      this.error(error);
    }
  }

  error(cause: unknown): void {
    this.end(() => this.out.error(cause), 'whatever the store says');
  }

  complete(): void {
    this.end((loss) => {
      if (loss) return this.out.error(this.errorFor(loss));
      this.flush();
      this.out.complete();
    });
  }

  private flush(): void {
    for (const value of this.held.splice(0)) this.out.next(value);
  }

  /** @param when an error of the work wins over a loss, so it need not wait until the store has told whether there is one */
  private end(
    settle: (loss: LockLostError | undefined) => void,
    when: 'when sure' | 'whatever the store says' = 'when sure',
  ): void {
    if (this.hasEnded) return;
    this.holdOwnAnswer();
    this.hasEnded = true;
    this.run?.close();
    if (when !== 'when sure' || !this.lock.isInDoubt()) return this.finish(settle);
    inBackground(
      this.lock.whenSure().then(() => this.finish(settle)),
      (error) => this.out.error(error),
    );
  }

  /** Lets an answer that the work has begun, or is going to send, hold the lock until it is over. */
  private holdOwnAnswer(): void {
    this.answer = this.options.ownAnswer?.();
    if (!this.answer) return;
    this.open += 1;
    this.answer.whenOver(() => {
      this.open -= 1;
      this.releaseIfDone();
    });
  }

  private breakOffWhenLost(): void {
    const { answer } = this;
    if (!answer || this.options.onLost !== 'throw') return;
    answer.whenOver(this.lock.onLoss((loss) => answer.breakOff(this.errorFor(loss))));
  }

  private finish(settle: (loss: LockLostError | undefined) => void): void {
    const loss = this.options.onLost === 'throw' ? this.lock.noticeLoss() : undefined;
    this.releaseIfDone();
    settle(loss);
    this.running.unsubscribe();
    if (!loss) this.breakOffWhenLost();
  }

  private stop(): void {
    this.running.unsubscribe();
    this.end(() => undefined);
  }

  private onLoss(loss: LockLostError): void {
    this.run?.close();
    const answer = this.options.ownAnswer?.();
    // Nest would end the answer, and the client would take the part that was sent for the whole.
    if (answer?.isBegun) answer.breakOff(this.errorFor(loss));
    this.out.error(this.errorFor(loss));
  }

  private errorFor(loss: LockLostError): unknown {
    return this.options.lossFor?.(loss) ?? loss;
  }
}

/** A part of the work that may go on after its Observable has ended: the run of a handler. */
interface Run {
  readonly isRunning: boolean;
  /** Lets nothing start under the lock from now on. */
  close(): void;
}

interface UnderLockOptions {
  readonly onLost: 'throw' | 'ignore';
  /** The error that subscribers get for a loss; default: the loss itself. */
  readonly lossFor?: (loss: unknown) => unknown;
  /** The reader of streams that go out as values. Without it they are passed on as they are. */
  readonly streams?: StreamOrigin & {
    /** Calls `stop` when the reader has left. */
    readonly whenLeft: (stop: () => void) => void;
  };
  /** The answer that the work sends itself, perhaps after its end; `undefined` where it has begun none so far. */
  readonly ownAnswer?: () => Answer | undefined;
}
