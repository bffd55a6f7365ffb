import type { ExecutionContext } from '@nestjs/common';
import { isObservable } from 'rxjs';
import { LockNotHeldError } from '../../port/lock.errors.js';
import type { HeldLock } from '../../lock/context/held-lock.js';
import { activationOfFlow, runFor, runHolding } from '../../lock/context/async-context.js';
import type { KeyPlan, RequestParts } from '../keys/key-plan.js';
import { isPromiseLike } from '../../async-context/maybe-promise.js';
import type { LockedSite } from '../declaration/locked-site.js';
import type { UnderLock } from './under-lock.js';

const SHARED = Symbol.for('nestjs-distributed-lock/activation');

/**
 * One run of a locked handler, from the grant to the end of the interceptors inside: it tells the handler's wrapper that
 * the lock is held already, and the interceptor whether the handler still runs.
 *
 * The handler may start more than once in it (an inner `retry()`). It does not start once the activation is closed.
 */
export class Activation {
  readonly site: LockedSite;
  private readonly plan: KeyPlan;
  private readonly parts: RequestParts;
  private isOpen = true;
  private running = 0;

  /**
   * Must not lead to the request once it is closed. Promises of this flow lead to the activation, and one that reaches the
   * old generation would keep the request, and all that comes after it, until the next full collection.
   */
  constructor(
    { site, plan, context }: LockedCall,
    /** `undefined` when this call needs no lock. */
    readonly lock: HeldLock | undefined,
    private holder?: Pick<UnderLock<unknown>, 'releaseIfDone' | 'streams' | 'hold'>,
  ) {
    this.site = site;
    this.plan = plan;
    this.parts = plan.partsOf(context);
    (context as Covered)[SHARED] = this;
  }

  /** The activation of this call, if this flow is one of its interceptors. */
  static passing({ [SHARED]: activation }: Covered, site: LockedSite): Activation | undefined {
    return activation?.site === site && activation === activationOfFlow() ? activation : undefined;
  }

  /** The open activation of this call, from any flow: an interceptor may go on in the flow of another request. */
  static of({ [SHARED]: activation }: Covered): Activation | undefined {
    return activation?.isOpen ? activation : undefined;
  }

  /** True while the handler has started and not settled. */
  get isRunning(): boolean {
    return this.running > 0;
  }

  /** True for arguments that name the keys of its lock. Without a lock, true for those that need none, until it is closed. */
  covers(args: readonly unknown[]): boolean {
    const { lock, plan } = this;
    return lock ? plan.fits(lock.keys, args, this.parts) : this.isOpen && plan.isFree(args);
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
   * Runs the handler in a flow without activation, so that a call of the same method inside acquires for itself.
   *
   * @returns its result; a promise that rejects with LockNotHeldError or LockLostError if it would run without the lock
   * @throws LockConfigurationError if the lock is not that of these arguments
   */
  run(handler: (lock: HeldLock | undefined) => unknown, args: readonly unknown[]): unknown {
    const { holder, lock } = this;
    const refusal = this.isOpen ? lock?.noticeLoss() : answered(lock);
    if (refusal) return Promise.reject(refusal);
    if (lock) this.plan.assertKeyOf(args, lock, this.parts);
    const result = runFor(undefined, () => handler(lock));
    if (isPromiseLike(result)) return this.follow(Promise.resolve(result), holder);
    if (isObservable(result)) holder?.streams();
    return holder ? holder.hold(result) : result;
  }

  /** Listens before Nest does, so that the lock is released before Nest passes the result on. */
  private follow(result: Promise<unknown>, holder: typeof this.holder): Promise<unknown> {
    this.running += 1;
    const end = (): void => {
      this.running -= 1;
      holder?.releaseIfDone();
    };
    const onValue = (value: unknown): unknown => {
      try {
        if (isObservable(value)) holder?.streams();
        return holder ? holder.hold(value) : value;
      } finally {
        end();
      }
    };
    const onError = (error: unknown): never => {
      end();
      throw error;
    };
    return result.then(onValue, onError);
  }
}

/** A context leads to its activation, and not the other way round. */
type Covered = ExecutionContext & { [SHARED]?: Activation };

/** One call of a locked handler by Nest. */
export interface LockedCall {
  readonly site: LockedSite;
  readonly plan: KeyPlan;
  readonly context: ExecutionContext;
}

function answered(lock: HeldLock | undefined): LockNotHeldError {
  const message = `"${lock?.key}" is not held any more: the request was answered before its handler could start.`;
  return new LockNotHeldError(message, lock?.key);
}

/** Runs `work` as a flow without activation: for a method that is no handler. */
export function withoutActivation<T>(work: () => T): T {
  return activationOfFlow() ? runFor(undefined, work) : work();
}
