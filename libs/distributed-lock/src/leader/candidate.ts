import { BehaviorSubject, type Observable } from 'rxjs';
import { Delays, randomMs, timeOfDay, within } from '../common/clock.js';
import { BoundController } from '../common/listeners.js';
import { withoutContext, inBackground } from '../common/promises.js';
import { inspectByJson } from '../common/redaction.js';
import { GuardedEvents } from '../lock/events/event-hub.js';
import type { LockEvent } from '../lock/events/lock.events.js';
import { ServiceInternals } from '../lock/events/service-internals.js';
import type { Lock } from '../lock/lock.js';
import type { LockService } from '../lock/lock.service.js';
import { isLockError, LockNotHeldError, LockShutdownError } from '../port/lock.errors.js';
import type { Leader, Term } from './leader.js';

/** How long a candidate pauses after an error. The pause doubles with each further error in a row, up to `MAX_PAUSE_MS`. */
export const FIRST_PAUSE_MS = 1000;
export const MAX_PAUSE_MS = 30_000;

/** Takes part in the election of one name: waits for the lock of that name, leads for as long as it holds the lock, and waits again. */
export class Candidate implements Leader {
  readonly leader$: Observable<LeaderTerm | undefined>;
  private readonly terms = new BehaviorSubject<LeaderTerm | undefined>(undefined);
  /** Aborted when this instance leaves the election: at its shutdown, or when the lock service closes. */
  private readonly standing = new AbortController();
  private locks: LockService | undefined;
  private delays: Delays | undefined;
  private failures = 0;
  /**
   * Resolves when this instance begins to release the lock: the work of the present term has ended, or the grace for it is over.
   */
  private stepDown: Promise<void> | undefined;
  /** Resolves when the lock of the last term is released. Set before `stepDown` resolves. */
  private release: Promise<unknown> | undefined;

  constructor(
    readonly name: string,
    readonly key: string,
  ) {
    this.leader$ = GuardedEvents.bound(this.terms, (error) => this.report('listener', error));
  }

  get isLeader(): boolean {
    return this.term !== undefined;
  }

  get term(): LeaderTerm | undefined {
    const term = this.terms.value;
    return term?.isHeld ? term : undefined;
  }

  async resign(): Promise<void> {
    const { key, name } = this;
    const message = `"${key}" is not held any more: this instance has resigned as the leader "${name}".`;
    const hasEnded = this.terms.value?.end('resigned', new LockNotHeldError(message, key));
    // Work of the term may call this. If we waited for that work here, it would wait for itself for ever.
    const isWork = this.locks?.current(key) !== undefined;
    if (!hasEnded || isWork) return;
    await this.stepDown;
    await this.release;
  }

  /** Runs `work` if this instance leads. @returns its result, or `undefined` if this instance does not lead */
  async runAsLeader<T>(work: (term: LeaderTerm) => T | Promise<T>): Promise<T | undefined> {
    const { term } = this;
    return term?.run(() => work(term));
  }

  /** Stands for election until `close()`. Returns at once, without waiting for the store. */
  stand(locks: LockService, handlers: TermHandlers): void {
    if (this.standing.signal.aborted) return;
    this.locks = locks;
    const delays = (this.delays = new Delays(locks.options.clock));
    ServiceInternals.of(locks).events.emit({ type: 'candidate', key: this.key, name: this.name });
    inBackground(
      withoutContext(() => this.run(locks, delays, handlers)),
      (error) => this.report('election', error),
    );
  }

  /**
   * Steps down and no longer stands for election. Waits for the work of the term, for at most `shutdownGraceMs`. Does not wait
   * for the release, because the lock service does so when it closes, for at most the time of two commands.
   */
  async close(): Promise<void> {
    const { key, name } = this;
    const error = new LockShutdownError(`The leader "${name}" steps down: the application is closing.`, key);
    this.standing.abort(error);
    this.delays?.endAll();
    this.terms.value?.end('shutdown', error);
    await this.stepDown;
    this.terms.complete();
  }

  toJSON(): object {
    const { name, key, isLeader } = this;
    return { name, key, isLeader };
  }

  private async run(locks: LockService, delays: Delays, handlers: TermHandlers): Promise<void> {
    const { signal } = this.standing;
    while (!signal.aborted) {
      const isFine = await this.standOnce(locks, handlers);
      this.failures = isFine ? 0 : this.failures + 1;
      if (!isFine && !signal.aborted) await delays.wait(this.pauseMs(locks));
    }
  }

  /** Waits for the lock and leads one term. @returns false after an error, which has been reported */
  private async standOnce(locks: LockService, handlers: TermHandlers): Promise<boolean> {
    const { signal } = this.standing;
    try {
      // Set these options here, so that defaults of the registration do not make a candidate give up.
      const options = { waitMs: Infinity, maxWaiting: Infinity, fair: false, holdAtLeastMs: 0, signal };
      const lock = await locks.acquire(this.key, options);
      if (!signal.aborted) return await this.lead(locks, lock, handlers);
      await lock.release();
    } catch (error) {
      if (isLockError(error, 'LOCK_SHUTDOWN')) this.standing.abort(error);
      if (signal.aborted) return true;
      this.report('election', error);
      return false;
    }
    return true;
  }

  /**
   * Leads one term: until the term is over, and then until its work has ended.
   *
   * @returns false if an `@OnElected` method failed and the term was short, so that the candidate pauses
   */
  private async lead(locks: LockService, lock: Lock, handlers: TermHandlers): Promise<boolean> {
    const { clock } = locks.options;
    const { key, name } = this;
    const electedAt = clock.now();
    const term = new LeaderTerm(name, new Date(timeOfDay(clock)), lock);
    const { fencingToken, since } = term;
    let onReleasing = (): void => undefined;
    this.stepDown = new Promise((resolve) => (onReleasing = resolve));
    // Set the term before the `elected` event, because a listener of that event may resign.
    this.terms.next(term);
    ServiceInternals.of(locks).events.emit({ type: 'elected', key, name, fencingToken, since });
    for (const handler of handlers.elected) this.start(term, handler);

    const reason = await term.over;
    const ledMs = clock.now() - electedAt;
    ServiceInternals.of(locks).events.emit({ type: 'demoted', key, name, fencingToken, reason, ledMs });
    this.terms.next(undefined);
    for (const handler of handlers.demoted) this.tell(term, handler);

    await this.finishWithin(locks, term, reason);
    this.release = lock.release();
    onReleasing();
    await Promise.all([this.release, term.settled()]);
    return reason !== 'failed' || ledMs > MAX_PAUSE_MS;
  }

  private start(term: LeaderTerm, handler: TermHandler): void {
    const onFailed = (error: unknown): void => {
      if (isAbort(error, term.signal)) return;
      this.report('@OnElected', error);
      const message = `The leader "${this.name}" steps down: an @OnElected method has failed.`;
      term.end('failed', new LockNotHeldError(message, this.key, { cause: error }));
    };
    inBackground(
      term.run(() => handler(term)),
      onFailed,
    );
  }

  private tell(term: LeaderTerm, handler: TermHandler): void {
    inBackground(
      term.follow(async () => handler(term)),
      (error) => this.report('@OnDemoted', error),
    );
  }

  /** Waits for the work of a term that is over, and warns if that takes longer than the grace. */
  private async finishWithin(locks: LockService, term: LeaderTerm, reason: Demotion): Promise<void> {
    const { clock, shutdownGraceMs } = locks.options;
    if ((await within(clock, shutdownGraceMs, term.settled())) !== 'late') return;
    const after = reason === 'lost' ? '' : ' The next leader may begin now.';
    ServiceInternals.of(locks).events.warn(
      `Work of the leader "${this.name}" still runs ${shutdownGraceMs} ms after its term has ended (${reason}).${after} This instance is not elected again before that work has ended. End it by term.signal.`,
    );
  }

  private pauseMs({ options: { chance } }: LockService): number {
    const longest = Math.min(FIRST_PAUSE_MS * 2 ** (this.failures - 1), MAX_PAUSE_MS);
    return randomMs(chance, { least: longest / 2, spread: longest / 2 });
  }

  private report(during: string, error: unknown): void {
    if (this.locks)
      ServiceInternals.of(this.locks).events.emit({ type: 'error', key: this.key, during, error });
  }
}

export interface TermHandlers {
  readonly elected: TermHandler[];
  readonly demoted: TermHandler[];
}

type TermHandler = (term: LeaderTerm) => unknown;

inspectByJson(Candidate, 'Leader');

/** Whether work of a term has rejected only because its signal has aborted: with the reason of the signal, or with an `AbortError`. */
function isAbort(error: unknown, { aborted, reason }: AbortSignal): boolean {
  if (!aborted) return false;
  const { name, cause } = Object(error) as { readonly name?: unknown; readonly cause?: unknown };
  return error === reason || cause === reason || name === 'AbortError';
}

/** The term of a candidate that has its lock, and the work that is done in it. */
export class LeaderTerm implements Term {
  /** Resolves when the term is over. The work of the term may go on. */
  readonly over: Promise<Demotion>;
  private readonly controller = new BoundController();
  private isOver = false;
  private resolveOver: (reason: Demotion) => void = () => undefined;
  private underWay = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(
    readonly name: string,
    readonly since: Date,
    private readonly lock: Lock,
  ) {
    this.over = new Promise((resolve) => (this.resolveOver = resolve));
    this.endWith(lock.shutdownSignal, 'shutdown');
    this.endWith(lock.signal, 'lost');
  }

  get key(): string {
    return this.lock.key;
  }

  get fencingToken(): number {
    return this.lock.fencingToken;
  }

  get signal(): AbortSignal {
    // Reading the lock's signal checks the lease, so it finds a loss that no timer has noticed yet.
    if (!this.isOver && this.lock.signal.aborted) this.end('lost', this.lock.signal.reason as Error);
    return this.controller.signal;
  }

  /** True while the term is not over and its lease is valid. */
  get isHeld(): boolean {
    return !this.isOver && this.lock.validForMs > 0;
  }

  /** Ends the term. @param cause the reason with which `signal` aborts @returns false if the term had already ended */
  end(reason: Demotion, cause: Error): boolean {
    if (this.isOver) return false;
    this.isOver = true;
    this.resolveOver(reason);
    this.controller.abort(cause);
    return true;
  }

  /**
   * Runs `work` in an async flow that holds the lock. Settles as `work` does.
   *
   * @returns `undefined`, without running `work`, if the term is over
   */
  async run<T>(work: () => T | Promise<T>): Promise<T | undefined> {
    let hasBegun = false;
    const begin = (): T | Promise<T> | undefined => {
      if (this.isOver) return undefined;
      hasBegun = true;
      return work();
    };
    try {
      return await this.follow(() => this.lock.run(begin));
    } catch (error) {
      if (hasBegun) throw error;
      return undefined;
    }
  }

  /** Counts `work` as work of this term until it settles. Settles as `work` does. */
  async follow<T>(work: () => T | Promise<T>): Promise<T> {
    this.underWay += 1;
    try {
      return await work();
    } finally {
      this.underWay -= 1;
      if (this.underWay === 0) for (const resolve of this.waiting.splice(0)) resolve();
    }
  }

  /** Resolves when all work of this term has settled. */
  async settled(): Promise<void> {
    if (this.underWay > 0) await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  /** Returns the fields that a log shows of this term. Leaves out the lock. */
  toJSON(): object {
    const { name, key, fencingToken, since } = this;
    return { name, key, fencingToken, since };
  }

  private endWith(signal: AbortSignal, reason: Demotion): void {
    const end = (): boolean => this.end(reason, signal.reason as Error);
    if (signal.aborted) end();
    else signal.addEventListener('abort', end, { once: true });
  }
}

type Demotion = Extract<LockEvent, { readonly type: 'demoted' }>['reason'];

inspectByJson(LeaderTerm, 'Term');
