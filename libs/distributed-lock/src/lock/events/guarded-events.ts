import { Observable, Subscriber, type Observer, type Operator, type Subscription } from 'rxjs';

type Listener<T> = Partial<Observer<T>> | ((value: T) => void) | null;

/**
 * An Observable whose listeners may throw without ending the process.
 *
 * RxJS throws such an error again from a timer, as nobody's. Somebody who only watches locks must not be able to take
 * the application down, so here it is told instead. Operators work as usual.
 */
export class GuardedEvents<T> extends Observable<T> {
  constructor(
    source: Observable<T> | undefined,
    private readonly tell: (error: unknown) => void,
  ) {
    super();
    this.source = source;
  }

  /** What `pipe` makes is guarded, too. */
  override lift<R>(operator?: Operator<T, R>): Observable<R> {
    const lifted = new GuardedEvents<R>(undefined, this.tell);
    lifted.source = this;
    lifted.operator = operator as Operator<unknown, R> | undefined;
    return lifted;
  }

  override subscribe(listener?: Listener<T>): Subscription;
  override subscribe(
    next?: ((value: T) => void) | null,
    error?: ((error: unknown) => void) | null,
    complete?: (() => void) | null,
  ): Subscription;
  override subscribe(
    first?: Listener<T>,
    error?: ((error: unknown) => void) | null,
    complete?: (() => void) | null,
  ): Subscription {
    // An operator: its errors go down to whoever listens there.
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
