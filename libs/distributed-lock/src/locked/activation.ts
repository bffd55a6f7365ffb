import type { ExecutionContext } from '@nestjs/common';
import { isObservable } from 'rxjs';
import { LockNotHeldError } from '../lock/lock.errors.js';
import type { HeldLock } from '../lock/held-lock.js';
import { activationOfFlow, runFor, runHolding } from '../lock/owner-context.js';
import { isAmong } from './is-among.js';
import type { AnyClass, LockedSite } from './locked-site.js';

const SHARED = Symbol.for('nestjs-distributed-lock/activation');

/** A context knows its activation, and not the other way round. */
type Covered = ExecutionContext & { [SHARED]?: Activation };

interface Holder {
  releaseIfDone(): void;
  streams(): void;
}

/**
 * One run of a locked handler, from the grant to the end of the interceptors inside: it tells the handler's wrapper that
 * its lock is there already, and the interceptor whether the handler still runs.
 *
 * The handler may start more than once in it (an inner `retry()`), and does not start at all once it is closed.
 */
export class Activation {
  private isOpen = true;
  private running = 0;
  private instance: object | undefined;
  private readonly cls: AnyClass;

  /**
   * Must not lead to the request once it is over: promises of this flow lead here, and one that has grown old would
   * keep the whole request, and what comes after it, from all but the full collections.
   */
  constructor(
    private readonly site: LockedSite,
    context: ExecutionContext,
    /** `undefined` when this call needs none. */
    readonly lock: HeldLock | undefined,
    private holder?: Holder,
  ) {
    this.cls = context.getClass();
    (context as Covered)[SHARED] = this;
  }

  /** The activation that covers a call of this site on this object, open or closed. */
  static covering(site: LockedSite, self: unknown): Activation | undefined {
    const current = currentActivation();
    // One that needed no lock covers nothing once it is over: what is called later asks for itself.
    const covers = current?.site === site && (current.isOpen || current.lock !== undefined);
    return covers && current.isFor(self) ? current : undefined;
  }

  /** True when an interceptor outside has acquired for this very call. */
  static has(context: ExecutionContext, site: LockedSite): boolean {
    const current = currentActivation();
    return current?.site === site && (context as Covered)[SHARED] === current;
  }

  /** True while the handler has started and not settled. */
  get isRunning(): boolean {
    return this.running > 0;
  }

  /** Runs `work` as a flow that holds its lock. */
  enter<T>(work: () => T): T {
    return this.lock ? runHolding(this.lock, work, this) : runFor(this, work);
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
    if (isObservable(result)) holder?.streams();
    return isThenable(result) ? this.follow(Promise.resolve(result), holder) : result;
  }

  private refusal(): Error | undefined {
    if (this.isOpen) return this.lock?.loss;
    const message = `"${this.lock?.key}" is not held any more: the request was answered before its handler could start.`;
    return new LockNotHeldError(message, this.lock?.key);
  }

  /** Registers before Nest does, and so knows of the end before Nest passes the result on. */
  private follow(result: Promise<unknown>, holder: Holder | undefined): Promise<unknown> {
    this.running += 1;
    const settle = (value?: unknown): void => {
      this.running -= 1;
      if (isObservable(value)) holder?.streams();
      holder?.releaseIfDone();
    };
    result.then(settle, () => settle());
    return result;
  }

  /** Nest shows the object only in the call: the first one of the right class is ours. */
  private isFor(self: unknown): boolean {
    if (!(self instanceof this.cls)) return false;
    this.instance ??= self as object;
    return isAmong([this.instance], self as object);
  }
}

/** Leaves the activation: for code that is no handler of it. */
export function withoutActivation<T>(work: () => T): T {
  return currentActivation() ? runFor(undefined, work) : work();
}

/** `undefined` while the handler's own code runs. */
function currentActivation(): Activation | undefined {
  return activationOfFlow() as Activation | undefined;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | undefined)?.then === 'function';
}
