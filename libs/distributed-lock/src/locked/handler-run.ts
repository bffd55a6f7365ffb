import type { CallHandler, ExecutionContext, NestInterceptor } from '@nestjs/common';
import { isObservable, Observable } from 'rxjs';
import { isPromiseLike } from '../async-context/maybe-promise.js';
import type { HeldLock } from '../lock/core/held-lock.js';
import { activationOfFlow, runFor, runHolding } from '../lock/core/async-context.js';
import { LockNotHeldError } from '../port/lock.errors.js';
import type { KeyPlan, RequestParts } from './key-plan.js';
import type { LockedSite } from './locked-site.js';
import type { UnderLock } from './under-lock.js';

/** One call of a locked handler by Nest. */
export interface HandlerRequest {
  readonly site: LockedSite;
  readonly plan: KeyPlan;
  readonly context: ExecutionContext;
}

const SHARED = Symbol.for('nestjs-distributed-lock/activation');
/** A context leads to its run, and not the other way round. */
type Covered = ExecutionContext & { [SHARED]?: HandlerRun };

/**
 * One run of a locked handler, from the grant to the end of the interceptors inside. The interceptors run in a flow that
 * has the lock and this run; behind the last of them the flow has an `ExpectedCall`; the handler's own flow has neither.
 *
 * The handler may start more than once (an inner `retry()`). It does not start once the run is closed.
 */
export class HandlerRun {
  readonly site: LockedSite;
  private readonly plan: KeyPlan;
  private readonly parts: RequestParts;
  private isOpen = true;
  private running = 0;

  /**
   * Must not lead to the request once it is closed. Promises of this flow lead to the run, and one that reaches the old
   * generation would keep the request, and all that comes after it, until the next full collection.
   */
  constructor(
    { site, plan, context }: HandlerRequest,
    /** `undefined` when this call needs no lock. */
    readonly lock: HeldLock | undefined,
    private holder?: Pick<UnderLock<unknown>, 'releaseIfDone' | 'streams' | 'hold'>,
  ) {
    this.site = site;
    this.plan = plan;
    this.parts = plan.partsOf(context);
    (context as Covered)[SHARED] = this;
  }

  /** The run of this call, if this flow is one of its interceptors. */
  static passing({ [SHARED]: run }: Covered, site: LockedSite): HandlerRun | undefined {
    return run?.site === site && run === activationOfFlow() ? run : undefined;
  }

  /** The open run of this call, from any flow: an interceptor may go on in the flow of another request. */
  static of({ [SHARED]: run }: Covered): HandlerRun | undefined {
    return run?.isOpen ? run : undefined;
  }

  /** True while the handler has started and not settled. */
  get isRunning(): boolean {
    return this.running > 0;
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
    return lock && activationOfFlow() !== this ? runHolding(lock, work, as) : runFor(as, work);
  }

  /** Refuses to start the handler from now on. Handlers that run are still followed. */
  close(): void {
    this.isOpen = false;
    this.holder = undefined;
  }

  /**
   * Runs the handler in a flow of its own, so that a call of the same method inside acquires for itself.
   *
   * @returns its result; a promise that rejects with LockNotHeldError or LockLostError if it would run without the lock
   */
  start(handler: (lock: HeldLock | undefined) => unknown, onSuccess: () => void): unknown {
    const { holder, lock } = this;
    const refusal = this.isOpen ? lock?.noticeLoss() : answeredError(lock);
    if (refusal) return Promise.reject(refusal);
    const result = runFor(undefined, () => handler(lock));
    const pass = (value: unknown): unknown => {
      onSuccess();
      if (isObservable(value)) holder?.streams();
      return holder ? holder.hold(value) : value;
    };
    if (!isPromiseLike(result)) return pass(result);
    this.running += 1;
    const end = (): void => {
      this.running -= 1;
      holder?.releaseIfDone();
    };
    // Listens before Nest does, so that the lock is released before Nest passes the result on.
    return Promise.resolve(result).then(
      (value) => {
        try {
          return pass(value);
        } finally {
          end();
        }
      },
      (error: unknown) => {
        end();
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
export class ExpectedCall {
  private isOpen = true;

  constructor(private readonly handlerRun: HandlerRun) {}

  /** @returns the call that Nest makes in this flow, if it is a call of this site with these arguments */
  static of(site: LockedSite, args: readonly unknown[]): ExpectedCall | undefined {
    // Not by `instanceof`: an application may load both builds of this package.
    const call = activationOfFlow() as Partial<ExpectedCall> | undefined;
    return call?.is?.(site, args) ? (call as ExpectedCall) : undefined;
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
 * The step behind the last interceptor: only pipes and Nest's own call of the handler follow. The call is over before the
 * rest of the flow goes on with its result.
 */
export function toHandler(handlerRun: HandlerRun, next: CallHandler): Observable<unknown> {
  return new Observable((out) => {
    const call = new ExpectedCall(handlerRun);
    const closeFirst =
      <A extends readonly unknown[]>(goOn: (...args: A) => void) =>
      (...args: A): void => {
        call.close();
        goOn(...args);
      };
    const observer = {
      next: closeFirst((value: unknown) => out.next(value)),
      error: closeFirst((error: unknown) => out.error(error)),
      complete: closeFirst(() => out.complete()),
    };
    return handlerRun.enter(() => next.handle().subscribe(observer), call);
  });
}

/**
 * The last interceptor of a locked handler that has other interceptors besides the lock. One of them may have gone on in the
 * flow of another request.
 */
export const lastInterceptor: NestInterceptor = {
  intercept(context, next) {
    const handlerRun = HandlerRun.of(context);
    return handlerRun ? toHandler(handlerRun, next) : next.handle();
  },
};

function answeredError(lock: HeldLock | undefined): LockNotHeldError {
  const message = `"${lock?.key}" is not held any more: the request was answered before its handler could start.`;
  return new LockNotHeldError(message, lock?.key);
}

/** Runs `work` as a flow that no handler runs in: for a method that is none. */
export function outsideOfHandlers<T>(work: () => T): T {
  return activationOfFlow() ? runFor(undefined, work) : work();
}
