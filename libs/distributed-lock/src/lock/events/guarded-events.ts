import { Observable, Subscriber, type Observer, type Operator, type Subscription } from 'rxjs';

/**
 * An Observable whose listeners may throw without ending the process. Operators work as usual.
 *
 * RxJS throws an error of a listener again from a timer, where it would end the application. Here `tell` gets it.
 */
export class GuardedEvents<T> extends Observable<T> {
  constructor(
    source: Observable<T> | undefined,
    private readonly tell: (error: unknown) => void,
  ) {
    super();
    this.source = source;
  }

  /** For `pipe`, whose result is guarded, too. */
  override lift<R>(operator?: Operator<T, R>): Observable<R> {
    const lifted = new GuardedEvents<R>(undefined, this.tell);
    lifted.source = this;
    lifted.operator = operator as Operator<unknown, R> | undefined;
    return lifted;
  }

  override subscribe(
    first?: Listener<T>,
    error?: ((error: unknown) => void) | null,
    complete?: (() => void) | null,
  ): Subscription {
    // An operator. Its errors reach the listener behind it.
    if (first instanceof Subscriber) return super.subscribe(first);
    const given: Partial<Observer<T>> =
      typeof first === 'object' && first !== null
        ? first
        : { next: first ?? undefined, error: error ?? undefined, complete: complete ?? undefined };
    return super.subscribe({
      next: (value) => this.guard(() => given.next?.(value)),
      error: (cause) => this.guard(() => (given.error ? given.error(cause) : this.tell(cause))),
      complete: () => this.guard(() => given.complete?.()),
    });
  }

  private guard(step: () => void): void {
    try {
      step();
    } catch (error) {
      this.tell(error);
    }
  }
}

type Listener<T> = Partial<Observer<T>> | ((value: T) => void) | null;
