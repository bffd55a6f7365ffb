import { Observable, type Observer, type Operator, Subject, Subscriber, type Subscription } from 'rxjs';
import { bindEvents } from '../../common/listeners.js';
import type { LockEvent } from './lock.events.js';

/** Writes events for people. It is called by the hub and does not subscribe, because a subscriber would hear every event. */
export interface EventLog {
  /** Whether an event of this type would be written, or counts for what is written. */
  wants(type: LockEvent['type']): boolean;
  write(event: LockEvent): void;
  stop(): void;
}

/** Names of calls may be computed, so that there is no end of them. */
const MAX_WARNINGS = 100;

/**
 * Passes the events of one service to its log and then to its listeners.
 *
 * Each lock has an `asked`, an `acquired` and a `released` event, and mostly nobody hears them. Code that emits one of these
 * checks `hears` first, so that a lock without listeners makes no event object.
 */
export class EventHub {
  /** Each subscriber gets the events in the async context in which it has subscribed. */
  readonly bound: Observable<LockEvent>;
  /** The events in the async context that causes them. */
  readonly inPlace: Observable<LockEvent>;
  /** Set once, before the first call. */
  log: EventLog | undefined;
  private readonly listeners = new Subject<LockEvent>();
  private isReportingListener = false;
  /** The subjects of the warnings that are given once. */
  private readonly warned = new Set<string>();
  private calls = 0;

  constructor() {
    const onListenerFailed = (error: unknown) => this.onListenerFailed(error);
    this.bound = new GuardedEvents(bindEvents(this.listeners), onListenerFailed);
    this.inPlace = new GuardedEvents(this.listeners, onListenerFailed);
  }

  readonly hears = (type: LockEvent['type']): boolean =>
    this.listeners.observed || this.log?.wants(type) === true;

  readonly emit = (event: LockEvent): void => {
    const { log } = this;
    if (log?.wants(event.type)) this.write(log, event);
    this.listeners.next(event);
  };

  /** A number for the events of one call. */
  nextCall(): number {
    return (this.calls += 1);
  }

  /** Emits a `warning` event, which the logger writes: the configuration works, and is probably not meant. */
  warn(message: string): void {
    this.emit({ type: 'warning', key: undefined, message });
  }

  /** Warns of a probable mistake in the program, once for all warnings that are `about` the same. Not in production. */
  warnOnce(about: string, message: string): void {
    const { warned } = this;
    if (process.env['NODE_ENV'] === 'production' || warned.has(about) || warned.size >= MAX_WARNINGS) return;
    warned.add(about);
    this.warn(message);
  }

  /** No event is passed on after it: a late one would begin a timer of the log. */
  complete(): void {
    this.listeners.complete();
    this.log?.stop();
    this.log = undefined;
  }

  /** Whatever the log throws, as for an error that has no text, the code that emits goes on. */
  private write(log: EventLog, event: LockEvent): void {
    try {
      log.write(event);
    } catch (error) {
      this.onListenerFailed(error);
    }
  }

  /** Emits one `error` event. A listener that also throws at this event causes no further one. */
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
