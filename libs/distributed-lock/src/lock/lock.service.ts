import { type Observable, Subject } from 'rxjs';
import { DeadlineTimer } from '../time/deadline-timer.js';
import { bindEvents } from '../async/bound-events.js';
import { RebuiltMap } from '../collections/rebuilt-map.js';
import { covers } from '../port/claim.js';
import { Deadlocks, heldInAnotherWay } from './context/deadlock-detection.js';
import { discardStream } from './streams/discard-stream.js';
import { GuardedEvents } from './events/guarded-events.js';
import { HeldLock } from './context/held-lock.js';
import { holdStream } from './streams/held-stream.js';
import { Hold } from './context/hold.js';
import { inBackground } from '../async/in-background.js';
import { LocalQueue } from './queue/local-queue.js';
import { inspectByJson } from '../printing/inspect-by-json.js';
import type { LockRuntime } from './lock-runtime.js';
import {
  LockConfigurationError,
  LockNotHeldError,
  LockShutdownError,
  LockWaitTimeoutError,
} from '../port/lock.errors.js';
import { EVENTS_IN_PLACE, type LockEvent } from './events/lock.events.js';
import { describeGiven } from '../checks/describe-given.js';
import {
  CALL_NAMES,
  checkOnLost,
  resolveLockOptions,
  WITH_LOCK_NAMES,
  type LockServiceOptions,
  type ResolvedLockOptions,
} from './request/lock-options.js';
import { checkKeys, queueName, lockRequest, type LockRequest } from './request/lock-request.js';
import type { LockSnapshot, LockStore, StoreState } from '../port/lock-store.js';
import { checkOptionNames } from '../checks/option-names.js';
import type { CallOptions, Keys, Lock, WithLockOptions } from './lock.js';
import { findHold, findLock, holdsOfFlow, runHolding } from './context/async-context.js';
import { outside } from '../async/outside.js';
import { outsideClock } from './outside-clock.js';
import { outsideStore } from './outside-store.js';
import { overlay } from '../checks/overlay.js';
import { acquireFreeKeys, type NotTogether } from './queue/several-keys.js';
import { OwnerRegistry } from './owner/owner-registry.js';
import { Watchdog } from './lease/watchdog.js';

const NO_OPTIONS: WithLockOptions = {};
const ONCE: CallOptions = { waitMs: 0 };
/** How long a store that was opened during the boot stays open with nothing to do. */
const REST_MS = 1000;

/**
 * Set by an application that boots, until `open()`: what is opened for a call is closed again when nothing is under way.
 * Nest tells nobody that a boot has failed, and connections would keep its process alive.
 */
export const IS_BOOTING = Symbol('LockService.isBooting');

/** What a service has while its store is open. */
interface Parts {
  readonly core: LockRuntime;
  readonly tenures: OwnerRegistry;
  readonly watchdog: Watchdog;
}

/** Work to do under a lock. */
export type Work<T> = (lock: Lock) => T | Promise<T>;

/**
 * Acquires and gives back locks. One per registration of the module, and one client of its store.
 *
 * Calls of one async flow are re-entrant by key: a nested call for a key that the flow holds shares the lock and makes
 * no store call. Two flows exclude each other, in one process and across processes.
 */
export class LockService {
  /**
   * What happens to locks of this process. Listeners run while locks are passed on: be quick. Each runs in the async
   * context in which it has subscribed, whichever call an event is about. One that throws hurts neither a lock nor the
   * process: an `error` event tells of it.
   */
  readonly events$: Observable<LockEvent>;
  readonly [EVENTS_IN_PLACE]: Observable<LockEvent>;
  readonly options: ResolvedLockOptions;
  /** Who this is, also where Nest has put a Proxy around it: then `this` is one object or the other. */
  private readonly scope = Symbol('LockService');
  private readonly events = new Subject<LockEvent>();
  private readonly lines = new RebuiltMap<string | LockRequest, LocalQueue>();
  private opened: Parts | undefined;
  /** `open()` was called. */
  private isOpen = false;
  [IS_BOOTING] = false;
  /** Commands of callers that hold nothing for them. */
  private asking = 0;
  private cancelRest: (() => void) | undefined;
  private closing: Promise<void> | undefined;
  private readonly deadlocks = new Deadlocks();
  private calls = 0;
  private tellsOfListener = false;

  constructor(
    options: LockServiceOptions,
    /** The name of the registration, for messages. */
    readonly name = 'default',
  ) {
    this.options = resolveLockOptions(options);
    const tell = (error: unknown) => this.onListenerFailed(error);
    this.events$ = new GuardedEvents(bindEvents(this.events), tell);
    this[EVENTS_IN_PLACE] = new GuardedEvents(this.events, tell);
  }

  /**
   * Runs `work` under the lock and gives it back, whatever happens.
   *
   * A stream that `work` gives (an async generator, a `ReadableStream`, a `Readable`, a `Response` with a body) holds the
   * lock until it has ended, or its reader has left it: read it, or cancel it. An Observable is refused.
   *
   * Settles as `work` does, once the release is on its way. If the lock is lost before `work` ends, `lock.signal` aborts
   * at once, and a call whose work still succeeds rejects with `LockLostError` unless `onLost` is `'ignore'`. The error
   * of `work` always wins.
   *
   * @throws LockWaitTimeoutError, LockLostError, LockStoreError, LockKeyError, LockShutdownError,
   * LockDeadlockError, LockConfigurationError for a result that cannot be held, or `signal.reason`
   */
  withLock<T>(key: Keys, work: Work<T>): Promise<T>;
  withLock<T>(key: Keys, options: WithLockOptions, work: Work<T>): Promise<T>;
  withLock<T>(key: Keys, optionsOrWork: WithLockOptions | Work<T>, maybeWork?: Work<T>): Promise<T> {
    const isPlain = typeof optionsOrWork === 'function' && maybeWork === undefined;
    const options = isPlain ? NO_OPTIONS : (optionsOrWork as WithLockOptions);
    const work = isPlain ? optionsOrWork : (maybeWork as Work<T>);
    if (typeof work !== 'function') return Promise.reject(noWork(work));
    return this.holdsFor(key, options, 'withLock').then((holds) => runUnder(asLock(holds), options, work));
  }

  /**
   * Acquires and hands over the lock: the caller gives it back, by `release()` or `await using`.
   *
   * Nested calls find it only inside `lock.run(…)`.
   *
   * @throws LockWaitTimeoutError, LockStoreError, LockKeyError, LockShutdownError,
   * LockDeadlockError, or `signal.reason`
   */
  acquire(key: Keys, options: CallOptions = NO_OPTIONS): Promise<Lock> {
    return this.holdsFor(key, options, 'acquire').then(asLock);
  }

  /**
   * As `acquire`, but `null` when the key is not free. Asks once; with `waitMs`, waits that long.
   *
   * @throws LockStoreError, LockKeyError, LockShutdownError,
   * LockDeadlockError, or `signal.reason`
   */
  async tryAcquire(key: Keys, options: CallOptions = {}): Promise<Lock | null> {
    try {
      checkOptionNames('tryAcquire', options, CALL_NAMES);
      return asLock(await this.holdsFor(key, overlay(ONCE, options), 'acquire'));
    } catch (error) {
      if (error instanceof LockWaitTimeoutError) return null;
      throw error;
    }
  }

  /** The innermost lock of this async flow that is still held: of `key`, or any. */
  current(key?: string): Lock | undefined {
    return findLock(this.scope, key);
  }

  /**
   * For code that relies on being called under a lock.
   *
   * @throws LockNotHeldError, or LockLostError while it cannot be known whether it is still held
   */
  assertHeld(key: string): Lock {
    const lock = this.current(key);
    findHold(this.scope, key)?.assertBelieved();
    if (lock) return lock;
    const message = `"${key}" is not held by this async flow. Call this inside withLock("${key}", …) or @Locked.`;
    throw new LockNotHeldError(message, key);
  }

  /** Who holds `key` and who waits for it; `null` when nobody does either. @throws LockStoreError, LockShutdownError */
  async inspect(key: string): Promise<LockSnapshot | null> {
    return this.ask(key, (store) => store.inspect(key));
  }

  /**
   * Takes the lock from whoever holds it. A holder of this library is told at once; its work goes on unprotected.
   *
   * @throws LockStoreError, LockShutdownError
   */
  async forceRelease(key: string): Promise<'released' | 'not held'> {
    return this.ask(key, (store) => store.forceRelease(key));
  }

  /** Tells listeners, and so the log, of something that works and is probably not what was meant. */
  warn(message: string): void {
    this.events.next({ type: 'warning', key: undefined, message });
  }

  /** Opens the store, if it is neither open nor closed yet, and tells of it once. Does not wait for a connection. */
  open(): void {
    if (this.closing || this.isOpen) return;
    this[IS_BOOTING] = false;
    this.cancelRest?.();
    const { name: store, clientId, address } = this.parts().core.store;
    this.isOpen = true;
    this.events.next({ type: 'opened', key: undefined, store, clientId, address });
  }

  /**
   * Ends all that this service holds or waits for: refuses new calls, rejects those in line with `LockShutdownError`,
   * leaves holders `shutdownGraceMs` to finish, then takes their locks from them. Bounded by that and two commands.
   */
  drain(): Promise<void> {
    // In a turn of its own: a listener of `shutdownSignal` that acquires is refused, and one that closes shares this drain.
    return (this.closing ??= Promise.resolve().then(() => this.drainNow()));
  }

  /** Drains, then closes what the store has opened. */
  async close(): Promise<void> {
    await this.drain();
    await this.opened?.core.store.close();
    this.events.complete();
  }

  /** For logs: no option of the store and nothing that is held. */
  toJSON(): object {
    const { name, options, opened } = this;
    return {
      name,
      keyPrefix: options.keyPrefix,
      store: opened?.core.store.name,
      clientId: opened?.core.store.clientId,
    };
  }

  /** Told once at a time: a listener that always throws would throw over this, too. */
  private onListenerFailed(error: unknown): void {
    if (this.tellsOfListener) return;
    this.tellsOfListener = true;
    this.events.next({ type: 'error', key: undefined, during: 'listener', error });
    this.tellsOfListener = false;
  }

  private parts(): Parts {
    if (this.opened) return this.opened;
    const parts = (this.opened = outside(() => this.openParts()));
    if (this[IS_BOOTING]) this.closeAtRest(parts);
    return parts;
  }

  private closeAtRest(parts: Parts): void {
    const { core, tenures, watchdog } = parts;
    const { owners } = tenures;
    this.cancelRest = core.clock.after(REST_MS, () => {
      if (this.asking > 0 || !tenures.areAllEnded || tenures.owners > owners) return this.closeAtRest(parts);
      this.opened = undefined;
      watchdog.stop();
      core.deadlines.stop();
      inBackground(core.store.close(), (error) =>
        core.emit({ type: 'error', key: undefined, during: 'close', error }),
      );
    });
  }

  private async ask<T>(key: string, command: (store: LockStore) => Promise<T>): Promise<T> {
    const { store } = this.partsFor(key).core;
    this.asking += 1;
    try {
      return await command(store);
    } finally {
      this.asking -= 1;
    }
  }

  /** A store that nobody would close must not be opened any more. */
  private partsFor(key: string): Parts {
    if (this.closing && !this.opened)
      throw new LockShutdownError(`"${key}" was not asked for: the application is closing.`, key);
    return this.parts();
  }

  private openParts(): Parts {
    const { keyPrefix, watchdogTimeoutMs } = this.options;
    const clock = outsideClock(this.options.clock);
    const emit = (event: LockEvent) => {
      if (this.events.observed) this.events.next(event);
    };
    const onError = (during: string, error: unknown) =>
      emit({ type: 'error', key: undefined, during, error });
    const onState = (state: StoreState) => emit({ type: 'store', key: undefined, store: store.name, state });
    const context = { clock, keyPrefix, watchdogTimeoutMs, onError, onState };
    const store: LockStore = outsideStore(this.options.store.create(context));
    const deadlines = new DeadlineTimer(clock);
    const nextCall = () => ++this.calls;
    const core = { scope: this.scope, clock, deadlines, store, nextCall, emit };
    const watchdog = new Watchdog(store, clock, watchdogTimeoutMs, emit);
    const tenures = new OwnerRegistry(core, watchdog);
    store.notifications$.subscribe((push) => tenures.onNotification(push));
    return { core, tenures, watchdog };
  }

  /** Not async for one key, by far the most common case: what waits is kept small. */
  private holdsFor(
    keys: Keys,
    options: CallOptions,
    call: 'withLock' | 'acquire',
  ): Promise<Hold | readonly Hold[]> {
    try {
      if (options !== NO_OPTIONS) checkNames(call, options);
      const list = checkKeys(keys);
      if (typeof list !== 'string') return this.acquireSeveral(list, options);
      return this.acquireOne(lockRequest(list, options, this.options));
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /** In one step if all are free; else one by one, in the same order everywhere. */
  private async acquireSeveral(keys: readonly string[], options: CallOptions): Promise<readonly Hold[]> {
    const requests = keys.toSorted().map((key) => lockRequest(key, options, this.options));
    const startedAt = this.options.clock.now();
    const taken = await this.acquireFree(requests);
    const holds = 'busyKey' in taken ? await this.acquireInOrder(requests, startedAt, taken.busyKey) : taken;
    const byKey = new Map(holds.map((hold) => [hold.key, hold]));
    return keys.map((key) => byKey.get(key) as Hold);
  }

  private async acquireFree(requests: readonly LockRequest[]): Promise<readonly Hold[] | NotTogether> {
    const { waitMs, signal } = requests[0] as LockRequest;
    const refusing = requests.find((request) => this.lines.get(queueName(request))?.isOutOfReach);
    if (refusing) return { busyKey: refusing.key };
    const isNested = requests.some(({ key }) => findHold(this.scope, key));
    // Those that wait are served by this process, as soon as it is their turn.
    const isWaitedFor = waitMs > 0 && requests.some((request) => this.lines.has(queueName(request)));
    if (isNested || isWaitedFor || this.closing || signal?.aborted) return { busyKey: undefined };
    const { core, tenures } = this.parts();
    if (!core.store.acquireAll) return { busyKey: undefined };
    const lines = requests.map((request) => this.lineOf(request));
    const holds = await acquireFreeKeys(core, tenures, requests, lines);
    if ('busyKey' in holds || !this.closing) return holds;
    for (const hold of holds) inBackground(hold.release());
    throw this.shutdownError(requests[0]?.key ?? '');
  }

  /**
   * No two callers wait for each other; one deadline for all.
   *
   * @param busyKey asked for first by a caller that does not wait: it mostly is the answer for all
   */
  private async acquireInOrder(
    requests: readonly LockRequest[],
    startedAt: number,
    busyKey: string | undefined,
  ): Promise<readonly Hold[]> {
    const { clock } = this.options;
    const held: Hold[] = [];
    const leftOf = ({ waitMs }: LockRequest) => Math.ceil(Math.max(0, waitMs - (clock.now() - startedAt)));
    const waits = leftOf(requests[0] as LockRequest) > 0;
    const order = waits ? requests : requests.toSorted((a, b) => +(b.key === busyKey) - +(a.key === busyKey));
    try {
      for (const request of order) {
        held.push(await this.acquireOne({ ...request, waitMs: leftOf(request) }, held));
        // A fixed lease may have run out while its caller waited for the next key.
        for (const hold of held) {
          const loss = hold.checkLoss();
          if (loss) throw loss;
        }
      }
      return held;
    } catch (error) {
      for (const hold of held.reverse()) inBackground(hold.release());
      throw error;
    }
  }

  /** @param before what the same call has taken so far */
  private acquireOne(request: LockRequest, before: readonly Hold[] = []): Promise<Hold> {
    const { key, claim } = request;
    const mine = findHold(this.scope, key);
    if (mine && covers(mine.claim, claim)) return Promise.resolve(mine.share(request.holdAtLeastMs));
    if (mine) return Promise.reject(heldInAnotherWay(mine, claim));
    if (this.closing) return Promise.reject(this.shutdownError(key));
    if (request.signal?.aborted) return Promise.reject(request.signal.reason as Error);
    const join = () => this.lineOf(request).join(request);
    const holds = [...before, ...holdsOfFlow(this.scope)];
    // Whoever asks once does not wait: busy is its answer.
    if (holds.length === 0 || request.waitMs === 0) return join();
    return this.deadlocks.watch(request, holds, join);
  }

  private lineOf(request: LockRequest): LocalQueue {
    const name = queueName(request);
    let line = this.lines.get(name);
    if (!line) {
      const { core, tenures } = this.parts();
      // The line may live much longer than this call.
      const sample = { ...request, signal: undefined };
      line = new LocalQueue(core, tenures, sample, () => this.lines.delete(name));
      this.lines.set(name, line);
    }
    return line;
  }

  private async drainNow(): Promise<void> {
    this.cancelRest?.();
    if (!this.opened) return;
    const { core, tenures, watchdog } = this.opened;
    const { clock, deadlines, store } = core;
    const { shutdownGraceMs } = this.options;
    for (const line of this.lines.values()) line.close(this.shutdownError(line.key));
    const cancelGrace = clock.after(shutdownGraceMs, () => {
      const detail = `the application closes and its grace of ${shutdownGraceMs} ms is over`;
      for (const tenure of tenures.held()) tenure.onLost('shutdown', detail);
    });
    tenures.beginShutdown((key) => closing(key, shutdownGraceMs));
    await tenures.whenIdle();
    cancelGrace();
    watchdog.stop();
    deadlines.stop();
    await this.within(2 * store.commandTimeoutMs, tenures.whenAllEnded());
  }

  private async within(ms: number, done: Promise<void>): Promise<void> {
    let cancel = (): void => undefined;
    const timeout = new Promise<void>((resolve) => (cancel = this.options.clock.after(ms, resolve)));
    await Promise.race([done, timeout]);
    cancel();
  }

  private shutdownError(key: string): LockShutdownError {
    return new LockShutdownError(`"${key}" was not acquired: the application is closing.`, key);
  }
}

inspectByJson(LockService, 'LockService');

function checkNames(call: 'withLock' | 'acquire', options: WithLockOptions): void {
  if (call === 'acquire') return checkOptionNames(call, options, CALL_NAMES);
  checkOptionNames(call, options, WITH_LOCK_NAMES);
  checkOnLost(options.onLost);
}

function closing(key: string, graceMs: number): LockShutdownError {
  const message = `The application is closing: end the work under "${key}" within ${graceMs} ms, or the lock is taken from it.`;
  return new LockShutdownError(message, key);
}

function noWork(given: unknown): LockConfigurationError {
  return new LockConfigurationError(
    `withLock takes a key, options or none, and a function to run; in place of the function it was given ${describeGiven(given)}.`,
  );
}

function asLock(holds: Hold | readonly Hold[]): HeldLock {
  return new HeldLock(holds instanceof Hold ? [holds] : holds);
}

async function runUnder<T>(lock: HeldLock, { onLost }: WithLockOptions, work: Work<T>): Promise<T> {
  let isKept = false;
  try {
    const result = await runHolding(lock, () => work(lock));
    if (lock.isInDoubt) await lock.whenSure();
    const loss = lock.checkLoss();
    if (loss && onLost !== 'ignore') {
      discardStream(result);
      throw loss;
    }
    const held = holdStream(result, lock, {
      where: `The work under "${lock.key}"`,
      readBy: 'caller',
      onLost,
      onEnd: () => lock.releaseInBackground(),
    });
    isKept = held !== undefined;
    return held ? (held.value as T) : result;
  } finally {
    // Not awaited: its outcome must not replace the work's. Failures are events.
    if (!isKept) lock.releaseInBackground();
  }
}
