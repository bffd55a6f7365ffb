import type { CallHandler, NestInterceptor } from '@nestjs/common';
import { Observable } from 'rxjs';
import type { HeldLock } from '../../lock/context/held-lock.js';
import { activationOfFlow } from '../../lock/context/async-context.js';
import { Activation } from './activation.js';
import type { LockedSite } from '../declaration/locked-site.js';

/**
 * The call of the handler that Nest makes for a request, from the end of the interceptors to its result.
 *
 * Every other call of the same method acquires for itself. A call by an interceptor comes from another flow, or after the
 * result. A call by a pipe comes from this flow, so the arguments must also name the key that is locked.
 */
export class HandlerCall {
  private isOpen = true;

  constructor(private readonly activation: Activation) {}

  /** @returns the call that Nest makes in this flow, if it is a call of this site with these arguments */
  static of(site: LockedSite, args: readonly unknown[]): HandlerCall | undefined {
    // Not by `instanceof`: an application may load both builds of this package.
    const call = activationOfFlow() as Partial<HandlerCall> | undefined;
    return call?.is?.(site, args) ? (call as HandlerCall) : undefined;
  }

  is(site: LockedSite, args: readonly unknown[]): boolean {
    return this.isOpen && this.activation.site === site && this.activation.covers(args);
  }

  /** Stays open after a failure, because a decorator around `@Locked` may call again. */
  run(handler: (lock: HeldLock | undefined) => unknown, args: readonly unknown[]): unknown {
    const result = this.activation.run(handler, args);
    const close = (): void => {
      this.isOpen = false;
    };
    if (result instanceof Promise) result.then(close, () => undefined);
    else close();
    return result;
  }

  /** Closes before the rest of the flow goes on with the result. */
  endWith(goOn: () => void): void {
    this.isOpen = false;
    goOn();
  }
}

/** The step behind the last interceptor: only pipes and Nest's own call of the handler follow. */
export function toHandler(activation: Activation, next: CallHandler): Observable<unknown> {
  return new Observable((out) => {
    const call = new HandlerCall(activation);
    const observer = {
      next: (value: unknown) => call.endWith(() => out.next(value)),
      error: (error: unknown) => call.endWith(() => out.error(error)),
      complete: () => call.endWith(() => out.complete()),
    };
    return activation.enter(() => next.handle().subscribe(observer), call);
  });
}

/** The last interceptor of a locked handler that has other interceptors besides the lock. */
export const lastInterceptor: NestInterceptor = {
  intercept(context, next) {
    const activation = Activation.of(context);
    return activation ? toHandler(activation, next) : next.handle();
  },
};
