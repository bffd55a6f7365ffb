import {
  Observable,
  isObservable,
  of,
  type Observer,
  type Subscriber,
  type Subscription,
  type TeardownLogic,
} from 'rxjs';
import type { HeldLock } from '../../lock/context/held-lock.js';
import { inBackground } from '../../async/in-background.js';
import { holdStream, type StreamOrigin } from '../../lock/streams/held-stream.js';
import { isLockError } from '../../port/lock.errors.js';
import { Departure } from './departure.js';

/** The lock, nothing where none is needed, or what to answer in place of the work. */
export type Admission = { readonly lock?: HeldLock } | { readonly answer: unknown };

/** Asks on subscription and leaves the line on teardown; then `run` takes over the subscriber. */
export function whenAdmitted<T>(
  admit: (departure: Departure) => Promise<Admission>,
  run: (lock: HeldLock | undefined, out: Subscriber<T>) => TeardownLogic,
): Observable<T> {
  return new Observable<T>((out) => {
    const departure = new Departure();
    const start = (admission: Admission): void => {
      departure.end();
      if ('answer' in admission) {
        const { answer } = admission;
        out.add((isObservable(answer) ? (answer as Observable<T>) : of(answer as T)).subscribe(out));
      } else if (out.closed) {
        // Granted in the moment of leaving: nobody else would give it back.
        admission.lock?.giveBack();
      } else {
        try {
          out.add(run(admission.lock, out));
        } catch (error) {
          out.error(error);
        }
      }
    };
    const fail = (error: unknown): void => {
      departure.end();
      out.error(error);
    };
    admit(departure).then(start, fail);
    return () => departure.leave();
  });
}

/** What runs under a lock, as far as its end cannot be told from its Observable alone. */
export interface LockedWork<T> {
  /** Called once; puts what it starts into the context of the lock. */
  subscribe(observer: Observer<T>): Subscription;
  /** True while something runs that unsubscribing does not stop. */
  isRunning(): boolean;
  /** Nothing may start under the lock any more. */
  close(): void;
}

export interface UnderLockOptions {
  readonly onLost: 'throw' | 'ignore';
  /** What subscribers are told of a loss. */
  readonly lossFor: (error: unknown) => unknown;
  /** Who reads streams that go out as values; without it they are passed on as they are. */
  readonly streams?: StreamOrigin & {
    /** Calls `stop` once nobody reads any more. */
    readonly whenLeft: (stop: () => void) => void;
  };
}

/**
 * Runs work under a lock that is held already and gives the lock back when the work has ended: its Observable has ended
 * *and* nothing of it runs any more, streams that have gone out as its values included.
 *
 * Unsubscribing stops a stream; anything else runs on under the lock until it has ended by itself. A loss is passed on
 * at once unless `onLost` is `'ignore'`; an error of the work that comes first wins.
 */
export class UnderLock<T> implements Observer<T> {
  private running: Subscription | undefined;
  private stopListening: (() => void) | undefined;
  private hasLetGo = false;
  private readonly held: T[] = [];
  private isStream = false;
  private hasLeft = false;
  private hasEnded = false;
  private work: LockedWork<T> | undefined;
  /** Streams that have gone out, and how many of them have not ended. */
  private readonly streamsOut: unknown[] = [];
  private streamsOpen = 0;

  constructor(
    private readonly out: Subscriber<T>,
    private readonly lock: HeldLock,
    private readonly options: UnderLockOptions,
  ) {}

  start(work: LockedWork<T>): void {
    this.work = work;
    try {
      this.lock.assertHeld();
      if (this.options.onLost === 'throw') this.stopListening = this.lock.onLoss(() => this.lose());
      this.running = work.subscribe(this);
      if (this.hasLetGo) this.running.unsubscribe();
    } catch (error) {
      this.error(error);
    }
  }

  /** The result has turned out to be a stream: from now on unsubscribing ends it. */
  streams(): void {
    this.isStream = true;
    if (this.hasLeft) this.stop();
  }

  /** The subscriber has left. */
  leave(): void {
    this.hasLeft = true;
    if (this.isStream) this.stop();
  }

  releaseIfDone(): void {
    if (this.hasEnded && this.streamsOpen === 0 && !this.work?.isRunning()) this.lock.giveBack();
  }

  /**
   * A value that goes on producing holds the lock until it has ended.
   *
   * @returns what is to go out in its place
   * @throws LockConfigurationError for a stream that cannot be held
   */
  hold(value: unknown): unknown {
    const { streams, onLost, lossFor } = this.options;
    if (!streams || this.streamsOut.includes(value)) return value;
    const onEnd = (): void => {
      this.streamsOpen -= 1;
      this.releaseIfDone();
    };
    const held = holdStream(value, this.lock, { ...streams, onLost, lossFor, onEnd });
    if (!held) return value;
    this.streamsOpen += 1;
    this.streamsOut.push(held.value);
    streams.whenLeft(() => held.stop());
    return held.value;
  }

  /**
   * A value waits for an end in the same turn, so that the release is on its way before the client can ask again.
   * It waits no longer than that: nobody knows when a stream ends.
   */
  next(value: T): void {
    try {
      const out = this.hold(value) as T;
      if (this.isStream) this.out.next(out);
      else if (this.held.push(out) === 1) queueMicrotask(() => this.flush());
    } catch (error) {
      this.error(error);
    }
  }

  error(cause: unknown): void {
    this.end(() => this.out.error(cause));
  }

  complete(): void {
    this.end((loss) => {
      if (loss) return this.out.error(this.options.lossFor(loss));
      this.flush();
      this.out.complete();
    });
  }

  private flush(): void {
    for (const value of this.held.splice(0)) this.out.next(value);
  }

  private end(settle: (loss: unknown) => void): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.work?.close();
    if (!this.lock.isInDoubt) return this.finish(settle);
    inBackground(
      this.lock.whenSure().then(() => this.finish(settle)),
      (error) => this.out.error(error),
    );
  }

  private finish(settle: (loss: unknown) => void): void {
    const loss = this.options.onLost === 'throw' ? lossOf(this.lock) : undefined;
    this.releaseIfDone();
    settle(loss);
    this.letGo();
  }

  private stop(): void {
    this.letGo();
    this.end(() => undefined);
  }

  /** Also before `subscribe` has returned what it started. */
  private letGo(): void {
    this.hasLetGo = true;
    this.stopListening?.();
    this.running?.unsubscribe();
  }

  private lose(): void {
    this.work?.close();
    this.out.error(this.options.lossFor(this.lock.loss));
  }
}

/** Also finds a loss that nobody has noticed yet, as after a stall of the event loop. */
function lossOf(lock: HeldLock): unknown {
  try {
    lock.assertHeld();
  } catch (error) {
    if (isLockError(error) && error.code === 'LOCK_LOST') return error;
  }
  return undefined;
}
