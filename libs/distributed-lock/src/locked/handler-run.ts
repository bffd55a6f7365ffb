// How Nest's own call of a locked handler gets the lock that the interceptor has acquired for it: by a mark in the async flow.
// The mark is a `LockedHandlerRun` while the interceptors inside the lock run, and an `ExpectedNestCall` behind the last of them;
// the handler's own flow has none. The wrapper of `@Locked` looks for the latter whenever the method is called. A call that finds
// none acquires a lock of its own.
import type { CallHandler, ExecutionContext, NestInterceptor } from '@nestjs/common';
import { isObservable, Observable, tap } from 'rxjs';
import { isPromiseLike } from '../common/promises.js';
import type { RequestValues } from '../keys/key-plan.js';
import { currentFlow, runFor, runHolding } from '../lock/core/async-context.js';
import type { HeldLock } from '../lock/core/held-lock.js';
import { LockNotHeldError } from '../port/lock.errors.js';
import type { Granted } from './acquire.js';
import { isInOwnFlow } from './handler-flow.js';
import type { LockedSite, LockPlan } from './lock-plan.js';
import type { UnderLock } from './under-lock.js';

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
 * One run of a locked handler, from the grant until the interceptors inside the lock have ended. The handler may start several
 * times (an inner `retry()`), but not after the run is closed.
 */
export class LockedHandlerRun {
  /** `undefined` if `when` said that this call needs no lock. */
  readonly lock: HeldLock | undefined;
  readonly plan: LockPlan;
  private readonly values: RequestValues;
  /** Not known from the plan, because a route may serve messages, too. */
  private readonly isMessage: boolean;
  isOpen = true;
  private hasEnded = false;

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
    this.isMessage = context.getType() === 'rpc';
    (context as ContextOfRun)[SHARED] = this;
  }

  /**
   * The run of this context, if this call of `LockedInterceptor` is inside of it: then an outer binding has acquired the lock
   * already. An interceptor between the two bindings may call from
   *
   * - the flow of the run, the usual case;
   * - the flow of an earlier call of the handler, whose result has made it call again;
   * - the flow of another request, if it puts its requests into a queue.
   *
   * An interceptor outside of the lock calls from the request's own flow, or after the run has ended.
   */
  static passing(context: ContextOfRun): LockedHandlerRun | undefined {
    const { [SHARED]: run } = context;
    if (!run || run.hasEnded) return undefined;
    const inFlow = currentFlow()?.handlerRun as Partial<ExpectedNestCall> | undefined;
    return inFlow === run || inFlow?.belongsTo?.(run) || !isInOwnFlow(context) ? run : undefined;
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
    const { lock, plan, values, isMessage } = this;
    return lock ? plan.covers(args, { lock, values, isMessage }) : this.isOpen && plan.isFree(args);
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

  /** Closes the run because its interceptors have ended. If an outer interceptor goes on again, that is another run. */
  end(): void {
    this.hasEnded = true;
    this.close();
  }
}

/**
 * Stands for the one call of the handler that Nest makes for a request. It is expected from the end of the interceptors until its
 * result. A call of the method by an interceptor comes from another flow, or after the result. A call by a pipe comes from this
 * flow, so `is` also checks that the arguments name the locked key.
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

  belongsTo(handlerRun: LockedHandlerRun): boolean {
    return this.handlerRun === handlerRun;
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
