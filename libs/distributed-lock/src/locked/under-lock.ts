// Holds the lock while work runs whose result is an Observable: the interceptor starts it for each request, and a method with the
// option `stream` for each subscriber.
import { type Observer, type Subscriber, Subscription } from 'rxjs';
import { inBackground } from '../common/promises.js';
import type { HeldLock } from '../lock/core/held-lock.js';
import type { StreamHoldOptions } from '../lock/streams/held-source.js';
import { holdStream } from '../lock/streams/held-stream.js';
import type { Answer } from '../nest/answers.js';
import type { LockLostError } from '../port/lock.errors.js';
import type { LockedHandlerRun } from './handler-run.js';

/**
 * Runs work under a lock that is already granted. Releases the lock when the Observable of the work has ended *and* no part of
 * the work runs any more: no handler, no stream that was passed on as a value, no response that the work sends itself.
 *
 * Unsubscribing stops a stream. Any other work runs on under the lock until it ends by itself. If the lock is lost meanwhile, the
 * subscriber gets that error at once, unless `onLost` is `'ignore'` or the work has failed before.
 */
export class UnderLock<T> implements Observer<T> {
  private readonly running = new Subscription();
  private readonly values: T[] = [];
  private readonly streamsOut: unknown[] = [];
  private isStream = false;
  private hasEnded = false;
  /** How many parts of the work, besides its Observable, still need the lock: handlers, streams and responses. */
  private parts = 0;
  private run: Pick<LockedHandlerRun, 'close' | 'end'> | undefined;

  constructor(
    private readonly out: Subscriber<T>,
    private readonly lock: HeldLock,
    private readonly options: UnderLockOptions,
  ) {}

  /**
   * @param subscribe starts the work, in an async context that has the lock
   * @param run is ended with the work, so that its handler cannot start under the lock any more
   * @returns what to call when the subscriber has left
   */
  start(
    subscribe: (observer: Observer<T>) => Subscription,
    run?: Pick<LockedHandlerRun, 'close' | 'end'>,
  ): () => void {
    this.run = run;
    try {
      this.lock.assertHeld();
      if (this.options.onLost === 'throw') this.running.add(this.lock.onLoss((loss) => this.onLoss(loss)));
      this.running.add(subscribe(this));
    } catch (error) {
      this.error(error);
    }
    return () => {
      if (this.isStream) this.stop();
    };
  }

  /** Called when the result is known to be a stream. From now on, unsubscribing stops the work. */
  streams(): void {
    this.isStream = true;
    if (this.out.closed) this.stop();
  }

  /**
   * Keeps the lock until one more part of the work has ended.
   *
   * @returns the function to call, one time, when that part has ended
   */
  addPart(): () => void {
    this.parts += 1;
    return () => this.endPart();
  }

  private endPart(): void {
    this.parts -= 1;
    this.releaseIfDone();
  }

  /**
   * If the value is a stream or another value that goes on producing, keeps the lock until it has ended.
   *
   * @returns the value to pass on: a stream comes back wrapped
   * @throws LockConfigurationError for a stream whose end cannot be observed
   */
  hold(value: unknown): unknown {
    const { streams, answer, onLost, lossFor } = this.options;
    if (!streams || this.streamsOut.includes(value)) return value;
    const onEnd = (): void => this.endPart();
    const stream = holdStream(value, this.lock, { ...streams, onLost, lossFor, onEnd });
    if (!stream) return value;
    this.parts += 1;
    this.streamsOut.push(stream.value);
    answer?.whenOver(() => stream.stop());
    return stream.value;
  }

  /**
   * Passes a value on at the end of this turn of the event loop. If the lock is released in the same turn, that request is sent
   * to the store before the client can react to the value with its next request.
   */
  next(value: T): void {
    try {
      const out = this.hold(value) as T;
      if (this.isStream) this.out.next(out);
      else if (this.values.push(out) === 1) queueMicrotask(() => this.flush());
    } catch (error) {
      this.error(error);
    }
  }

  /**
   * Passes an error of the work on at once. It takes precedence over a lost lock, so there is no need to ask the store whether
   * the lock was lost.
   */
  error(cause: unknown): void {
    this.end('at once', () => this.out.error(cause));
  }

  complete(): void {
    this.end('when sure', (loss) => {
      if (loss) return this.out.error(this.errorFor(loss));
      this.flush();
      this.out.complete();
    });
  }

  private flush(): void {
    for (const value of this.values.splice(0)) this.out.next(value);
  }

  private stop(): void {
    this.running.unsubscribe();
    this.end('when sure', () => undefined);
  }

  private end(when: 'at once' | 'when sure', settle: (loss: LockLostError | undefined) => void): void {
    if (this.hasEnded) return;
    // 1. If the work sends its response itself, keep the lock until that response is complete.
    const answer = this.ownAnswer();
    answer?.whenOver(this.addPart());
    // 2. Let no handler start under the lock from now on.
    this.hasEnded = true;
    this.run?.end();
    // 3. If the work has succeeded but the lock is in doubt, wait until the store has said whether it was still held.
    const finish = (): void => this.finish(settle, answer);
    if (when === 'at once' || !this.lock.isInDoubt()) return finish();
    inBackground(this.lock.whenSure().then(finish), (error) => this.out.error(error));
  }

  private finish(settle: (loss: LockLostError | undefined) => void, answer: Answer | undefined): void {
    const isThrown = this.options.onLost === 'throw';
    const loss = isThrown ? this.lock.noticeLoss() : undefined;
    // 4. Release the lock before the subscriber gets the result, unless a part of the work still runs.
    this.releaseIfDone();
    settle(loss);
    this.running.unsubscribe();
    // 5. If the lock is lost while the response is still being sent, abort the response.
    if (answer && isThrown && !loss)
      answer.whenOver(this.lock.onLoss((later) => answer.breakOff(this.errorFor(later))));
  }

  private releaseIfDone(): void {
    if (this.hasEnded && this.parts === 0) this.lock.releaseInBackground();
  }

  private onLoss(loss: LockLostError): void {
    this.run?.close();
    const answer = this.ownAnswer();
    // Abort a response that has begun. Nest would end it normally, and the client would take the part that it got for the whole.
    if (answer?.isBegun()) answer.breakOff(this.errorFor(loss));
    this.out.error(this.errorFor(loss));
  }

  private ownAnswer(): Answer | undefined {
    const { answer, sendsItself } = this.options;
    return answer && sendsItself?.(answer) ? answer : undefined;
  }

  private errorFor(loss: LockLostError): unknown {
    return this.options.lossFor?.(loss) ?? loss;
  }
}

interface UnderLockOptions {
  readonly onLost: 'throw' | 'ignore';
  /** Makes the error for subscribers from a LockLostError; default: that error itself. */
  readonly lossFor?: (loss: unknown) => unknown;
  /** Who reads the streams that the work passes on as values. Absent: such streams are passed on and do not hold the lock. */
  readonly streams?: Pick<StreamHoldOptions, 'where' | 'readBy'>;
  readonly answer?: Answer | undefined;
  /** Returns whether the handler sends this response itself, perhaps after it has returned. */
  readonly sendsItself?: (answer: Answer) => boolean;
}
