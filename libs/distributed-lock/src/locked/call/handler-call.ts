import type { Lock } from '../../lock/lock.js';
import { activationOfFlow } from '../../lock/context/async-context.js';
import type { LockedSite } from '../site/locked-site.js';

/** What a call of the handler runs in. */
interface CallActivation {
  readonly site: LockedSite;
  readonly lock: Lock | undefined;
  covers(args: readonly unknown[]): boolean;
  assertKeyOf(args: readonly unknown[]): void;
  run(handler: () => unknown): unknown;
}

/**
 * The call of the handler that Nest makes for a request, from the end of the interceptors to its result.
 *
 * It is told from every other call of the same method by its place: it begins behind the last interceptor, in a flow of
 * its own. What an interceptor calls comes from another flow, or after the result. A pipe calls from this one, so the
 * arguments must also name the key that is locked.
 */
export class HandlerCall {
  private isOpen = true;

  constructor(private readonly activation: CallActivation) {}

  /** The one that a call of this site with these arguments is, in this flow. */
  static of(site: LockedSite, args: readonly unknown[]): HandlerCall | undefined {
    const call = activationOfFlow() as Partial<HandlerCall> | undefined;
    return call?.is?.(site, args) ? (call as HandlerCall) : undefined;
  }

  get lock(): Lock | undefined {
    return this.activation.lock;
  }

  is(site: LockedSite, args: readonly unknown[]): boolean {
    return this.isOpen && this.activation.site === site && this.activation.covers(args);
  }

  /** @throws LockConfigurationError for a message whose key is not that of the arguments */
  assertKeyOf(args: readonly unknown[]): void {
    this.activation.assertKeyOf(args);
  }

  /** A decorator around `@Locked` may call again what has failed; a result is the end. */
  run(handler: () => unknown): unknown {
    const result = this.activation.run(handler);
    if (result instanceof Promise) {
      result.then(
        () => (this.isOpen = false),
        () => undefined,
      );
    } else {
      this.isOpen = false;
    }
    return result;
  }

  /** What goes on with the result, in the same flow, is no part of the call. */
  endWith(goOn: () => void): void {
    this.isOpen = false;
    goOn();
  }
}
