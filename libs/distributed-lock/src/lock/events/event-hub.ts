import { AsyncResource } from 'node:async_hooks';
import { Observable, type Observer, type Operator, Subject, Subscriber, type Subscription } from 'rxjs';
import { inBackground } from '../../common/promises.js';
import type { LockEvent } from './lock.events.js';

/** The log for people: the logger of Nest. */
interface EventLog {
  /** Whether the log needs events of this type: it writes them, or it counts them for a later line. */
  wants(type: LockEvent['type']): boolean;
  write(event: LockEvent): void;
  stop(): void;
}

/**
 * `warnOnce` gives at most this many different warnings. They may contain names that the application computes, so there would be no bound
 * otherwise.
 */
const MAX_WARNINGS = 100;

/**
 * Passes the events of one service to its log and then to its listeners.
 *
 * Each lock causes an `asked`, an `acquired` and a `released` event, and mostly nobody listens. Code that emits one of these first asks
 * `hears`, and creates the event object only if somebody does.
 */
export class EventHub {
  /** The events for applications. Each subscriber gets them in the async context in which it subscribed. */
  readonly bound: Observable<LockEvent>;
  /** The events for other parts of this package. A subscriber gets them in the async context of the code that emits. */
  readonly inPlace: Observable<LockEvent>;
  /**
   * Set at most once, before the first event. The hub calls it directly: if it subscribed to the events, every event object would have to
   * be created, including those that the log leaves out.
   */
  log: EventLog | undefined;
  private readonly listeners = new Subject<LockEvent>();
  private isReportingListener = false;
  /** The `about` of each warning that `warnOnce` has given. */
  private readonly warned = new Set<string>();
  private calls = 0;

  constructor() {
    const onListenerFailed = (error: unknown) => this.onListenerFailed(error);
    this.bound = GuardedEvents.bound(this.listeners, onListenerFailed);
    this.inPlace = new GuardedEvents(this.listeners, onListenerFailed);
  }

  readonly hears = (type: LockEvent['type']): boolean =>
    this.listeners.observed || this.log?.wants(type) === true;

  readonly emit = (event: LockEvent): void => {
    const { log } = this;
    if (log?.wants(event.type)) this.write(log, event);
    this.listeners.next(event);
  };

  /** Returns a new number, which all events of one call carry. */
  nextCall(): number {
    return (this.calls += 1);
  }

  /** Emits a `warning` event, which the logger writes, about a configuration that works but is probably a mistake. */
  warn(message: string): void {
    this.emit({ type: 'warning', key: undefined, message });
  }

  /** Warns of a probable mistake in the program, once for all warnings with the same `about`. Does nothing in production. */
  warnOnce(about: string, message: string): void {
    const { warned } = this;
    if (process.env['NODE_ENV'] === 'production' || warned.has(about) || warned.size >= MAX_WARNINGS) return;
    warned.add(about);
    this.warn(message);
  }

  /**
   * Calls a function of the application that an option of a call has given, in a turn of its own. If it throws or its promise rejects, an
   * `error` event reports it.
   */
  tell(listener: () => unknown): void {
    const told = Promise.resolve().then(listener);
    inBackground(told, (error) => this.onListenerFailed(error));
  }

  /** Completes the streams of events and drops the log. If the log got a late event, it would start a timer that nobody stops. */
  complete(): void {
    this.listeners.complete();
    this.log?.stop();
    this.log = undefined;
  }

  /**
   * Writes an event to the log. If the log throws, for example because it cannot convert an error to text, the code that emits goes on, and
   * an `error` event reports it.
   */
  private write(log: EventLog, event: LockEvent): void {
    try {
      log.write(event);
    } catch (error) {
      this.onListenerFailed(error);
    }
  }

  /** Emits one `error` event. If a listener throws at this event, too, no further one follows. */
  private onListenerFailed(error: unknown): void {
    if (this.isReportingListener) return;
    this.isReportingListener = true;
    this.emit({ type: 'error', key: undefined, during: 'listener', error });
    this.isReportingListener = false;
  }
}

/**
 * An Observable whose listeners may throw without ending the process. Operators work as usual.
 *
 * RxJS rethrows the error of a listener from a timer, which would end the process. This class catches it first and passes it to `tell`.
 */
export class GuardedEvents<T> extends Observable<T> {
  constructor(
    source: Observable<T> | undefined,
    private readonly tell: (error: unknown) => void,
  ) {
    super();
    this.source = source;
  }

  /** Guards the same events, but each subscriber gets them in the async context in which it subscribed. */
  static bound<T>(source: Observable<T>, tell: (error: unknown) => void): GuardedEvents<T> {
    const bound = new Observable<T>((out) => {
      const context = new AsyncResource('nestjs-distributed-lock.events');
      return source.subscribe({
        next: (value) => context.runInAsyncScope(() => out.next(value)),
        error: (error) => context.runInAsyncScope(() => out.error(error)),
        complete: () => context.runInAsyncScope(() => out.complete()),
      });
    });
    return new GuardedEvents(bound, tell);
  }

  /** RxJS calls this for `pipe`. The result is guarded, too. */
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
    // This subscriber is an operator, not a listener. It passes its errors on to the listener, where they are caught.
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
