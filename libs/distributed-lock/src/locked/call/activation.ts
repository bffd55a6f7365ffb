import type { CallHandler, ExecutionContext } from '@nestjs/common';
import { Observable, isObservable } from 'rxjs';
import { LockNotHeldError } from '../../port/lock.errors.js';
import type { HeldLock } from '../../lock/context/held-lock.js';
import type { Lock } from '../../lock/lock.js';
import { activationOfFlow, runFor, runHolding } from '../../lock/context/async-context.js';
import { isPromise } from '../plan/handler-values.js';
import { HandlerCall } from './handler-call.js';
import type { LockedSite } from '../site/locked-site.js';

const SHARED = Symbol.for('nestjs-distributed-lock/activation');

/** A context knows its activation, and not the other way round. */
type Covered = ExecutionContext & { [SHARED]?: Activation };

/** One call of a locked handler by Nest. */
export interface LockedCall {
  readonly site: LockedSite;
  readonly plan: {
    /** False where the arguments of a call name other keys. */
    fits(keys: readonly string[], args: readonly unknown[]): boolean;
    /** @throws LockConfigurationError where pipes that nobody can see have made another key of them */
    assertKeyOf(args: readonly unknown[], lock: Lock): void;
  };
  readonly context: ExecutionContext;
}

interface Holder {
  releaseIfDone(): void;
  streams(): void;
  /** @returns what is to go out in place of a stream */
  hold(result: unknown): unknown;
}

/**
 * One run of a locked handler, from the grant to the end of the interceptors inside: it tells the handler's wrapper that
 * its lock is there already, and the interceptor whether the handler still runs.
 *
 * The handler may start more than once in it (an inner `retry()`), and does not start at all once it is closed.
 */
export class Activation {
  readonly site: LockedSite;
  private readonly plan: LockedCall['plan'];
  private isOpen = true;
  private running = 0;

  /**
   * Must not lead to the request once it is over: promises of this flow lead here, and one that has grown old would
   * keep the whole request, and what comes after it, from all but the full collections.
   */
  constructor(
    { site, plan, context }: LockedCall,
    /** `undefined` when this call needs none. */
    readonly lock: HeldLock | undefined,
    private holder?: Holder,
  ) {
    this.site = site;
    this.plan = plan;
    (context as Covered)[SHARED] = this;
  }

  /** The activation whose interceptors run now, outside of the handler: of this very call. */
  static passing(context: ExecutionContext, site: LockedSite): Activation | undefined {
    const { [SHARED]: activation } = context as Covered;
    return activation && activation === activationOfFlow() && activation.site === site
      ? activation
      : undefined;
  }

  /** The open activation of this call, from whatever flow: an interceptor may go on in that of another request. */
  static of(context: ExecutionContext): Activation | undefined {
    const { [SHARED]: activation } = context as Covered;
    return activation?.isOpen ? activation : undefined;
  }

  /** True while the handler has started and not settled. */
  get isRunning(): boolean {
    return this.running > 0;
  }

  /** True for a call of the handler that its lock is for. One that needed no lock has nothing to give once it is over. */
  covers(args: readonly unknown[]): boolean {
    return this.lock ? this.plan.fits(this.lock.keys, args) : this.isOpen;
  }

  /** @throws LockConfigurationError, as its plan does */
  assertKeyOf(args: readonly unknown[]): void {
    if (this.lock) this.plan.assertKeyOf(args, this.lock);
  }

  /** Runs `work` as a flow that holds its lock. */
  enter<T>(work: () => T, as: Activation | HandlerCall = this): T {
    const { lock } = this;
    return lock && activationOfFlow() !== this ? runHolding(lock, work, as) : runFor(as, work);
  }

  /** What the last of the interceptors goes on with: behind it are only the pipes and Nest's own call of the handler. */
  toHandler(next: CallHandler): Observable<unknown> {
    return new Observable((out) => {
      const call = new HandlerCall(this);
      return this.enter(
        () =>
          next.handle().subscribe({
            next: (value) => call.endWith(() => out.next(value)),
            error: (error) => call.endWith(() => out.error(error)),
            complete: () => call.endWith(() => out.complete()),
          }),
        call,
      );
    });
  }

  /** No handler starts in it any more; those that run are still followed. */
  close(): void {
    this.isOpen = false;
    this.holder = undefined;
  }

  /**
   * Runs the handler itself. It gets no activation, so that a call of its own method inside acquires for itself.
   *
   * @returns what it returns; where it would run unlocked, a promise that rejects with LockNotHeldError or LockLostError
   */
  run(handler: () => unknown): unknown {
    const refusal = this.refusal();
    if (refusal) return Promise.reject(refusal);
    const { holder } = this;
    const result = runFor(undefined, handler);
    if (isPromise(result)) return this.follow(Promise.resolve(result), holder);
    if (isObservable(result)) holder?.streams();
    return holder ? holder.hold(result) : result;
  }

  private refusal(): Error | undefined {
    if (this.isOpen) return this.lock?.loss;
    const message = `"${this.lock?.key}" is not held any more: the request was answered before its handler could start.`;
    return new LockNotHeldError(message, this.lock?.key);
  }

  /** Registers before Nest does, and so knows of the end before Nest passes the result on. */
  private follow(result: Promise<unknown>, holder: Holder | undefined): Promise<unknown> {
    this.running += 1;
    const settled = (): void => {
      this.running -= 1;
      holder?.releaseIfDone();
    };
    return result.then(
      (value) => {
        if (isObservable(value)) holder?.streams();
        try {
          return holder ? holder.hold(value) : value;
        } finally {
          settled();
        }
      },
      (error: unknown) => {
        settled();
        throw error;
      },
    );
  }
}

/** Leaves the activation: for code that is no handler of it. */
export function withoutActivation<T>(work: () => T): T {
  return activationOfFlow() ? runFor(undefined, work) : work();
}
