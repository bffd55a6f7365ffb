// One call of a locked handler by Nest, from the grant to the release. Three classes, from the outside in: `UnderLock` holds the
// lock until all work has ended; `LockedHandlerRun` runs the interceptors inside the lock; `ExpectedNestCall` recognises Nest's own
// call of the handler, which must not acquire again, and makes it.
import type { CallHandler, ExecutionContext, NestInterceptor } from '@nestjs/common';
import { isObservable, Observable, type Observer, type Subscriber, Subscription, tap } from 'rxjs';
import { inBackground, isPromiseLike } from '../common/promises.js';
import { currentFlow, runFor, runHolding } from '../lock/core/async-context.js';
import type { HeldLock } from '../lock/core/held-lock.js';
import type { StreamHoldOptions } from '../lock/streams/held-source.js';
import { holdStream } from '../lock/streams/held-stream.js';
import type { Answer } from '../nest/answers.js';
import { type LockLostError, LockNotHeldError } from '../port/lock.errors.js';
import type { RequestValues } from '../keys/key-plan.js';
import type { Granted } from './acquire.js';
import type { LockedSite, LockPlan } from './lock-plan.js';

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
  private run: Pick<LockedHandlerRun, 'close'> | undefined;

  constructor(
    private readonly out: Subscriber<T>,
    private readonly lock: HeldLock,
    private readonly options: UnderLockOptions,
  ) {}

  /**
   * @param subscribe starts the work, in an async context that has the lock
   * @param run is closed when the work has ended, so that its handler cannot start under the lock any more
   * @returns what to call when the subscriber has left
   */
  start(
    subscribe: (observer: Observer<T>) => Subscription,
    run?: Pick<LockedHandlerRun, 'close'>,
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
    this.run?.close();
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

const NO_VALUES: RequestValues = new Map();

export interface HandlerRequest {
  readonly plan: LockPlan;
  readonly context: ExecutionContext;
}

const SHARED = Symbol.for('nestjs-distributed-lock/handler-run');
/**
 * A context references its run, so that interceptors find it. The run must not reference the context: it would keep the request
 * in memory.
 */
type ContextOfRun = ExecutionContext & { [SHARED]?: LockedHandlerRun };

/**
 * One run of a locked handler, from the grant until the interceptors inside the lock have ended. These interceptors run in an
 * async flow which carries the lock and this run. Behind the last of them the flow carries an `ExpectedNestCall` instead of the
 * run. The handler's own flow carries neither.
 *
 * The handler may start several times (an inner `retry()`), but not after the run is closed.
 */
export class LockedHandlerRun {
  /** `undefined` if `when` said that this call needs no lock. */
  readonly lock: HeldLock | undefined;
  readonly plan: LockPlan;
  private readonly values: RequestValues;
  isOpen = true;

  /**
   * `close` drops `underLock`, which references the request. Promises of this flow reference the run, and one that has reached
   * V8's old generation would keep the request in memory until the next full garbage collection.
   */
  constructor(
    { plan, context, lock, values = NO_VALUES }: HandlerRequest & Granted,
    public underLock?: Pick<UnderLock<unknown>, 'addPart' | 'streams' | 'hold'>,
  ) {
    this.lock = lock;
    this.plan = plan;
    this.values = values;
    (context as ContextOfRun)[SHARED] = this;
  }

  /**
   * The run of this context, if the present async flow is that of the run's interceptors: then an outer binding of
   * `LockedInterceptor` has acquired the lock already.
   */
  static passing({ [SHARED]: run }: ContextOfRun, site: LockedSite): LockedHandlerRun | undefined {
    return run?.plan.site === site && run === currentFlow()?.handlerRun ? run : undefined;
  }

  /**
   * The run of this context while it is open. The async flow does not matter, because an interceptor may go on in the flow of
   * another request.
   */
  static of({ [SHARED]: run }: ContextOfRun): LockedHandlerRun | undefined {
    return run?.isOpen ? run : undefined;
  }

  /**
   * Returns whether a call with these arguments may run under the lock that its request already holds, or without one if `when`
   * said so.
   *
   * @throws LockConfigurationError for a message whose arguments name another key
   */
  covers(args: readonly unknown[]): boolean {
    const { lock, plan } = this;
    return lock ? plan.covers(args, lock, this.values) : this.isOpen && plan.isFree(args);
  }

  /** Runs `work` in an async flow that carries the lock and `as`, by default this run. */
  enter<T>(work: () => T, as: object = this): T {
    const { lock } = this;
    return lock && currentFlow()?.handlerRun !== this ? runHolding(lock, work, as) : runFor(as, work);
  }

  /**
   * Runs what follows the last interceptor: pipes, and Nest's own call of the handler. Stops expecting that call before outer
   * interceptors see the result, so that an interceptor that calls the method again takes its own lock.
   */
  toHandler(next: CallHandler): Observable<unknown> {
    return new Observable((out) => {
      const call = new ExpectedNestCall(this);
      const close = (): void => call.close();
      const closing = tap<unknown>({ next: close, error: close, complete: close });
      return this.enter(() => next.handle().pipe(closing).subscribe(out), call);
    });
  }

  /** From now on the handler cannot start. If it is running, it keeps the lock until it ends. */
  close(): void {
    this.isOpen = false;
    this.underLock = undefined;
  }
}

/**
 * Stands for the one call of the handler that Nest makes for a request. `@Locked` wraps the method, and by this class its wrapper
 * recognises Nest's call, which already has the lock. The call is expected from the end of the interceptors until its result.
 *
 * Any other call of the same method acquires a lock of its own. A call by an interceptor comes from another flow, or after the
 * result. A call by a pipe comes from this flow, so `is` also checks that the arguments name the locked key.
 */
export class ExpectedNestCall {
  private isOpen = true;

  constructor(private readonly handlerRun: LockedHandlerRun) {}

  /** Returns the call that is expected in the present flow, if a call of this method with these arguments can be Nest's own. */
  static of(site: LockedSite, args: readonly unknown[]): ExpectedNestCall | undefined {
    // Not by `instanceof`: an application may load both builds of this package.
    const call = currentFlow()?.handlerRun as Partial<ExpectedNestCall> | undefined;
    return call?.is?.(site, args) ? (call as ExpectedNestCall) : undefined;
  }

  is(site: LockedSite, args: readonly unknown[]): boolean {
    return this.isOpen && this.handlerRun.plan.site === site && this.handlerRun.covers(args);
  }

  /**
   * Calls the handler in an async flow without its run, so that a further call of the same method inside it acquires a lock of its
   * own. After a failure a further call is still taken for Nest's, because a decorator above `@Locked` may retry the method.
   *
   * @returns the handler's result; or a promise that rejects with LockNotHeldError or LockLostError if the lock is no longer held
   */
  run(handler: (lock: HeldLock | undefined) => unknown): unknown {
    const { isOpen, lock, underLock } = this.handlerRun;
    const refusal = isOpen ? lock?.noticeLoss() : answeredError(lock);
    if (refusal) return Promise.reject(refusal);
    const result = runFor(undefined, () => handler(lock));
    const pass = (value: unknown): unknown => {
      this.close();
      if (isObservable(value)) underLock?.streams();
      return underLock ? underLock.hold(value) : value;
    };
    if (!isPromiseLike(result)) return pass(result);
    const end = underLock?.addPart();
    // Attach before Nest attaches its own handlers to this promise, so that the lock is released before Nest passes the result
    // on.
    return Promise.resolve(result).then(
      (value) => {
        try {
          return pass(value);
        } finally {
          end?.();
        }
      },
      (error: unknown) => {
        end?.();
        throw error;
      },
    );
  }

  close(): void {
    this.isOpen = false;
  }
}

/**
 * Put behind all other interceptors of a locked handler. It finds the run by the context and not by the async flow, because an
 * interceptor may have continued in the flow of another request.
 */
export const lastInterceptor: NestInterceptor = {
  intercept(context, next) {
    const handlerRun = LockedHandlerRun.of(context);
    return handlerRun ? handlerRun.toHandler(next) : next.handle();
  },
};

function answeredError(lock: HeldLock | undefined): LockNotHeldError {
  const message = `"${lock?.key}" is not held any more: the request was answered before its handler could start.`;
  return new LockNotHeldError(message, lock?.key);
}
