// One call of a locked handler by Nest, from the grant to the release. Three parts, from the outside in: `UnderLock` holds the
// lock, `LockedHandlerRun` is the run of the interceptors and the handler, `ExpectedNestCall` is Nest's own call of the handler.
import type { CallHandler, ExecutionContext, NestInterceptor } from '@nestjs/common';
import { isObservable, Observable, type Observer, type Subscriber, Subscription, tap } from 'rxjs';
import { inBackground, isPromiseLike } from '../common/promises.js';
import { handlerRunOfFlow, runFor, runHolding } from '../lock/core/async-context.js';
import type { HeldLock } from '../lock/core/held-lock.js';
import { holdStream, type StreamOrigin } from '../lock/streams/held-stream.js';
import { type LockLostError, LockNotHeldError } from '../port/lock.errors.js';
import type { Answer } from './answers.js';
import type { KeyPlan, RequestParts } from './key-plan.js';
import type { LockedSite } from './locked.options.js';

/**
 * Runs work under a lock that was granted already. Releases the lock when the Observable of the work has ended *and* no part
 * of the work runs any more: no handler, no stream that went out as a value, no answer that the work sends itself.
 *
 * Unsubscribing stops a stream. Other work runs on under the lock until it ends by itself. The subscriber gets a loss at once
 * unless `onLost` is `'ignore'`. An error of the work that comes first wins.
 */
export class UnderLock<T> implements Observer<T> {
  private readonly running = new Subscription();
  private readonly values: T[] = [];
  private readonly streamsOut: unknown[] = [];
  private isStream = false;
  private hasLeft = false;
  private hasEnded = false;
  /** How many parts of the work still hold the lock, besides its Observable. */
  private parts = 0;
  private run: Pick<LockedHandlerRun, 'close'> | undefined;

  constructor(
    private readonly out: Subscriber<T>,
    private readonly lock: HeldLock,
    private readonly options: UnderLockOptions,
  ) {}

  /**
   * @param subscribe starts the work in the context of the lock
   * @param run is closed when the work has ended, so that nothing starts under the lock from then on
   */
  start(subscribe: (observer: Observer<T>) => Subscription, run?: Pick<LockedHandlerRun, 'close'>): void {
    this.run = run;
    try {
      this.lock.assertHeld();
      if (this.options.onLost === 'throw') this.running.add(this.lock.onLoss((loss) => this.onLoss(loss)));
      this.running.add(subscribe(this));
    } catch (error) {
      this.error(error);
    }
  }

  /** Called when the result turns out to be a stream. From now on, unsubscribing ends the work. */
  streams(): void {
    this.isStream = true;
    if (this.hasLeft) this.stop();
  }

  leave(): void {
    this.hasLeft = true;
    if (this.isStream) this.stop();
  }

  /** Lets one more part of the work hold the lock. @returns ends the part; called once */
  addPart(): () => void {
    this.parts += 1;
    return () => this.endPart();
  }

  private endPart(): void {
    this.parts -= 1;
    this.releaseIfDone();
  }

  /**
   * Lets a value that goes on producing hold the lock until it has ended.
   *
   * @returns the value that goes out in its place
   * @throws LockConfigurationError for a stream that cannot be held
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

  /** Passes a value on at the end of the turn, so that a release of the same turn is ahead of the next request of the client. */
  next(value: T): void {
    try {
      const out = this.hold(value) as T;
      if (this.isStream) this.out.next(out);
      else if (this.values.push(out) === 1) queueMicrotask(() => this.flush());
    } catch (error) {
      this.error(error);
    }
  }

  /** An error of the work wins over a loss, so it need not wait until the store has said whether there is one. */
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
    // 1. An answer that the work has begun, or is going to send, holds the lock until it is over.
    const answer = this.ownAnswer();
    answer?.whenOver(this.addPart());
    // 2. Nothing starts under the lock from now on.
    this.hasEnded = true;
    this.run?.close();
    // 3. Work that has succeeded waits until the store has said whether the lock was still held.
    const finish = (): void => this.finish(settle, answer);
    if (when === 'at once' || !this.lock.isInDoubt()) return finish();
    inBackground(this.lock.whenSure().then(finish), (error) => this.out.error(error));
  }

  private finish(settle: (loss: LockLostError | undefined) => void, answer: Answer | undefined): void {
    const isThrown = this.options.onLost === 'throw';
    const loss = isThrown ? this.lock.noticeLoss() : undefined;
    // 4. The lock goes back before the subscriber learns of the result.
    this.releaseIfDone();
    settle(loss);
    this.running.unsubscribe();
    // 5. A loss while the answer is still being sent breaks it off.
    if (answer && isThrown && !loss)
      answer.whenOver(this.lock.onLoss((later) => answer.breakOff(this.errorFor(later))));
  }

  private releaseIfDone(): void {
    if (this.hasEnded && this.parts === 0) this.lock.releaseInBackground();
  }

  private onLoss(loss: LockLostError): void {
    this.run?.close();
    const answer = this.ownAnswer();
    // Nest would end the answer, and the client would take the part that was sent for the whole.
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
  /** The error that subscribers get for a loss; default: the loss itself. */
  readonly lossFor?: (loss: unknown) => unknown;
  /** Who reads streams that go out as values. Without it they are passed on as they are. */
  readonly streams?: StreamOrigin;
  readonly answer?: Answer | undefined;
  /** Whether the work sends the answer itself, perhaps after its end. */
  readonly sendsItself?: (answer: Answer) => boolean;
}

/** One call of a locked handler by Nest. */
export interface HandlerRequest {
  readonly site: LockedSite;
  readonly plan: KeyPlan;
  readonly context: ExecutionContext;
}

const SHARED = Symbol.for('nestjs-distributed-lock/handler-run');
/** A context references its run. A run does not reference its context, because that would keep the request in memory. */
type ContextOfRun = ExecutionContext & { [SHARED]?: LockedHandlerRun };

/**
 * One run of a locked handler, from the grant until the interceptors inside the lock have ended. These interceptors run in an async
 * flow that carries the lock and this run. After the last of them the flow carries an `ExpectedNestCall` instead. The handler's own
 * flow carries neither.
 *
 * The handler may start more than once (an inner `retry()`). It does not start after the run is closed.
 */
export class LockedHandlerRun {
  readonly site: LockedSite;
  private readonly plan: KeyPlan;
  private readonly parts: RequestParts;
  private isOpen = true;

  /**
   * A closed run must not reference its request. Promises of this flow reference the run, and one that has reached V8's old
   * generation would keep the request, and all that comes after it, in memory until the next full collection.
   */
  constructor(
    { site, plan, context }: HandlerRequest,
    /** `undefined` when this call needs no lock. */
    readonly lock: HeldLock | undefined,
    private underLock?: Pick<UnderLock<unknown>, 'addPart' | 'streams' | 'hold'>,
  ) {
    this.site = site;
    this.plan = plan;
    this.parts = plan.partsOf(context);
    (context as ContextOfRun)[SHARED] = this;
  }

  /** The run of this call, if the present flow is that of its interceptors. */
  static passing({ [SHARED]: run }: ContextOfRun, site: LockedSite): LockedHandlerRun | undefined {
    return run?.site === site && run === handlerRunOfFlow() ? run : undefined;
  }

  /** The open run of this call. The flow does not matter, because an interceptor may continue in the flow of another request. */
  static of({ [SHARED]: run }: ContextOfRun): LockedHandlerRun | undefined {
    return run?.isOpen ? run : undefined;
  }

  /**
   * Whether a call with these arguments may run under the lock that its request already holds, or without one if `when` said
   * so. @throws LockConfigurationError for a message that names another key
   */
  covers(args: readonly unknown[]): boolean {
    const { lock, plan } = this;
    return lock ? plan.covers(args, lock, this.parts) : this.isOpen && plan.isFree(args);
  }

  /** Runs `work` as a flow that has the lock. */
  enter<T>(work: () => T, as: object = this): T {
    const { lock } = this;
    return lock && handlerRunOfFlow() !== this ? runHolding(lock, work, as) : runFor(as, work);
  }

  /** Refuses to start the handler from now on. A handler that runs still holds the lock. */
  close(): void {
    this.isOpen = false;
    this.underLock = undefined;
  }

  /**
   * Runs the handler in a flow of its own, so that a call of the same method inside acquires for itself.
   *
   * @returns its result; a promise that rejects with LockNotHeldError or LockLostError if it would run without the lock
   */
  start(handler: (lock: HeldLock | undefined) => unknown, onSuccess: () => void): unknown {
    const { underLock, lock } = this;
    const refusal = this.isOpen ? lock?.noticeLoss() : answeredError(lock);
    if (refusal) return Promise.reject(refusal);
    const result = runFor(undefined, () => handler(lock));
    const pass = (value: unknown): unknown => {
      onSuccess();
      if (isObservable(value)) underLock?.streams();
      return underLock ? underLock.hold(value) : value;
    };
    if (!isPromiseLike(result)) return pass(result);
    const end = underLock?.addPart();
    // Listens before Nest does, so that the lock is released before Nest passes the result on.
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
}

/**
 * The call of the handler that Nest makes for a request, from the end of the interceptors to its result.
 *
 * Every other call of the same method acquires for itself. A call by an interceptor comes from another flow, or after the
 * result. A call by a pipe comes from this flow, so the arguments must also name the key that is locked.
 */
export class ExpectedNestCall {
  private isOpen = true;

  constructor(private readonly handlerRun: LockedHandlerRun) {}

  /** @returns the call that Nest makes in this flow, if it is a call of this site with these arguments */
  static of(site: LockedSite, args: readonly unknown[]): ExpectedNestCall | undefined {
    // Not by `instanceof`: an application may load both builds of this package.
    const call = handlerRunOfFlow() as Partial<ExpectedNestCall> | undefined;
    return call?.is?.(site, args) ? (call as ExpectedNestCall) : undefined;
  }

  is(site: LockedSite, args: readonly unknown[]): boolean {
    return this.isOpen && this.handlerRun.site === site && this.handlerRun.covers(args);
  }

  /** Stays open after a failure, because a decorator around `@Locked` may call again. */
  run(handler: (lock: HeldLock | undefined) => unknown): unknown {
    return this.handlerRun.start(handler, () => this.close());
  }

  close(): void {
    this.isOpen = false;
  }
}

/**
 * The step behind the last interceptor: only pipes and Nest's own call of the handler follow. Stops expecting that call before
 * outer interceptors see the result, so that an interceptor that calls the method again takes its own lock.
 */
export function toHandler(handlerRun: LockedHandlerRun, next: CallHandler): Observable<unknown> {
  return new Observable((out) => {
    const call = new ExpectedNestCall(handlerRun);
    const close = (): void => call.close();
    const closing = tap<unknown>({ next: close, error: close, complete: close });
    return handlerRun.enter(() => next.handle().pipe(closing).subscribe(out), call);
  });
}

/**
 * The last interceptor of a locked handler that has other interceptors besides the lock. It finds the run by the context, because
 * one of them may have continued in the flow of another request.
 */
export const lastInterceptor: NestInterceptor = {
  intercept(context, next) {
    const handlerRun = LockedHandlerRun.of(context);
    return handlerRun ? toHandler(handlerRun, next) : next.handle();
  },
};

function answeredError(lock: HeldLock | undefined): LockNotHeldError {
  const message = `"${lock?.key}" is not held any more: the request was answered before its handler could start.`;
  return new LockNotHeldError(message, lock?.key);
}
