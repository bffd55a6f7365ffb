import type { Observable } from 'rxjs';

/** This instance's part in an election. Inject it by `@InjectLeader('poller')`. */
export interface Leader {
  /** The name given to `LeaderModule.forFeature`. */
  readonly name: string;
  /**
   * True while this instance leads and the lease of its lock is valid. Compares the lease with the clock at each use, and
   * asks no store. A frozen process that goes on reads `false`.
   */
  readonly isLeader: boolean;
  /** The term of this instance; `undefined` while `isLeader` is false. */
  readonly term: Term | undefined;
  /**
   * The term of this instance, or `undefined`. A subscriber gets the present one at once, and each change. Completes when
   * the application closes. A listener that throws harms nobody. Its error becomes an `error` event of the `LockService`.
   */
  readonly leader$: Observable<Term | undefined>;
  /**
   * Gives the lead to the next instance in the queue. `term.signal` aborts at once. This instance then waits in the queue
   * again, and is elected again if no other instance waits.
   *
   * Waits for the work of the term, for `shutdownGraceMs` of the registration at most. Then releases the lock, and resolves
   * as soon as the store has confirmed the release, or can no longer do so because the lease is over. Called by that work
   * itself, it waits for neither. Never rejects. Does nothing while this instance does not lead.
   */
  resign(): Promise<void>;
}

/**
 * One stay of this instance in the lead, from its election to its demotion. It has a key and a fencing token, so it is a
 * `Fence` for `fencedRedis`.
 */
export interface Term {
  /** The name given to `LeaderModule.forFeature`. */
  readonly name: string;
  /** The key of the lock: the prefix and the name. */
  readonly key: string;
  /**
   * Larger than the token of each earlier term of this name, on any instance. Pass it to the resource that you write to,
   * and let that refuse smaller ones.
   */
  readonly fencingToken: number;
  /** When this instance was elected, by the time of day of its machine. */
  readonly since: Date;
  /**
   * Aborts when the term is over, no later than the lease of its lock, unless the event loop is blocked. Then it aborts
   * at the first use. Its reason is a `LockLostError`, a `LockShutdownError`, or a `LockNotHeldError` after `resign()` and
   * after an error of an `@OnElected` method. Each listener runs in the async context in which it was added.
   */
  readonly signal: AbortSignal;
}
