// The service that applications inject. One contended withLock, step by step: docs/architecture.md
import type { Observable } from 'rxjs';
import { timeOfDay } from '../common/clock.js';
import { ignoreFailure } from '../common/promises.js';
import { inspectByJson } from '../common/redaction.js';
import { type ForceReply, type LockClient, type LockSnapshot, modeOf } from '../port/lock-store.js';
import {
  holderName,
  LockConfigurationError,
  LockNotHeldError,
  LockShutdownError,
  LockWaitTimeoutError,
} from '../port/lock.errors.js';
import { checkOptions, describeGiven, overlay } from '../port/option-checks.js';
import { Acquirer } from './core/acquirer.js';
import { currentFlow, findHold } from './core/async-context.js';
import type { GuardedStore } from './core/guarded-store.js';
import type { HeldLock } from './core/held-lock.js';
import { LockRuntime, RuntimeLifecycle } from './core/lock-runtime.js';
import { isTraced, traceCall } from './core/trace-channels.js';
import { EventHub } from './events/event-hub.js';
import type { LockEvent } from './events/lock.events.js';
import { ServiceInternals } from './events/service-internals.js';
import type {
  AttachOptions,
  CallOptions,
  ForceReleaseOptions,
  HoldSnapshot,
  ListOptions,
  Lock,
  LockInspection,
  LockPage,
  WithLockOptions,
} from './lock.js';
import { readBaton } from './request/baton.js';
import { CallSite, CallSiteBudget } from './request/call-site.js';
import type { Keys } from './request/key-claim.js';
import {
  CALL_RULES,
  isWaitOfMethod,
  type LockServiceOptions,
  NO_OPTIONS,
  type ResolvedLockOptions,
  resolveLockOptions,
  thisProcess,
} from './request/lock-options.js';
import { checkKeys, checkKeyText, type LockRequest, LockRequests } from './request/lock-request.js';
import { forceRequest, listRequest } from './request/operator-requests.js';
import { runUnder, type Work } from './run-under.js';

const ONCE: CallOptions = { waitMs: 0 };
/** The `forced` event names at most this many owners. */
const MAX_NAMED = 3;

/**
 * Acquires and releases locks. Each registration of the module has one service, which is one client of its store.
 *
 * Calls of one async flow are re-entrant by key: a nested call for a key that the flow holds shares the lock without a request to the
 * store, unless one of the two has `reentrant: false`. Two flows exclude each other, in one process and across processes.
 */
export class LockService {
  /**
   * The events of all locks of this service. Listeners run during hand-offs, so they must be quick. Each listener runs in the async
   * context in which it subscribed, whichever call an event is about. If a listener throws, no lock is harmed and the process goes on:
   * the error becomes an `error` event. Completes when the service is closed.
   */
  readonly events$: Observable<LockEvent>;
  /** The options in force, defaults included. */
  readonly options: Readonly<ResolvedLockOptions>;
  /** Names the process of this service. The service passes it to the store, unless `application` is `false`. */
  readonly client: LockClient;
  /** Identifies the holds of this service. A symbol and not `this`, because Nest may put a Proxy around the service. */
  private readonly scope = Symbol('LockService');
  private readonly events = new EventHub();
  private readonly lifecycle: RuntimeLifecycle;
  private readonly requests: LockRequests;
  private readonly acquirer: Acquirer;
  private readonly callSites: CallSiteBudget;
  private isOpen = false;
  private closing: Promise<void> | undefined;

  /**
   * Creates a service without a module, for example in a script. It opens its store at the first call. Call `close()` at the end.
   *
   * @throws LockConfigurationError when options are wrong or contradict each other
   */
  constructor(
    options: LockServiceOptions,
    /** The name of the registration, for messages. */
    readonly name = 'default',
  ) {
    const resolved = (this.options = resolveLockOptions(options));
    const { application, clock } = resolved;
    const client = (this.client = thisProcess(application, timeOfDay(clock)));
    this.callSites = new CallSiteBudget(clock);
    const { scope, events } = this;
    this.events$ = events.bound;
    const internals = ServiceInternals.put(this, events);
    const told = application === false ? undefined : client;
    this.lifecycle = new RuntimeLifecycle(
      () => new LockRuntime({ scope, options: resolved, client: told, events }),
      () => internals.isBooting,
    );
    this.requests = new LockRequests(resolved);
    this.acquirer = new Acquirer(scope, resolved.clock, () => this.lifecycle.open());
  }

  /**
   * Runs `work` under the lock, and releases the lock when `work` has ended or failed.
   *
   * If `work` returns a stream (an async generator, a `ReadableStream`, a `Readable`, a `Response` with a body), the lock is held until
   * the stream has ended or its reader has left it: read it, or cancel it. An Observable is refused.
   *
   * Settles as `work` does, without waiting for the store to confirm the release: the next holder may start before or after the code
   * behind `await withLock(…)` runs. Await `close()` before `process.exit()`. Otherwise a release that has not been sent yet is thrown
   * away, and the key stays taken for a lease.
   *
   * If the lock is lost before `work` ends, `lock.signal` aborts at once. If `work` succeeds all the same, the call rejects with
   * `LockLostError` unless `onLost` is `'ignore'`. An error of `work` always takes precedence.
   *
   * @throws LockWaitTimeoutError when the key is not free within `waitMs`
   * @throws LockLostError when the lock was lost before `work` ended
   * @throws LockStoreError when the store cannot be reached, does not answer or refuses
   * @throws LockKeyError for a key that is empty, no string, or the name of a part of another lock
   * @throws LockDeadlockError when the call would wait for itself
   * @throws LockShutdownError when the application closes
   * @throws LockConfigurationError for wrong options, and for a result that cannot be held
   * @throws `signal.reason` when `signal` aborts before the lock is acquired
   * @example
   * ```ts
   * const token = await locks.withLock('goods:42', async (lock) => lock.fencingToken);
   * ```
   */
  withLock<T>(key: Keys, work: Work<T>): Promise<T>;
  withLock<T>(key: Keys, options: WithLockOptions, work: Work<T>): Promise<T>;
  withLock<T>(key: Keys, optionsOrWork: WithLockOptions | Work<T>, maybeWork?: Work<T>): Promise<T> {
    const hasNoOptions = typeof optionsOrWork === 'function' && maybeWork === undefined;
    const options = hasNoOptions ? NO_OPTIONS : (optionsOrWork as WithLockOptions);
    const work = hasNoOptions ? optionsOrWork : (maybeWork as Work<T>);
    if (typeof work !== 'function') return Promise.reject(notFunctionError(work));
    return this.lockFor(key, options).then((lock) => runUnder(lock, options, work));
  }

  /**
   * Acquires the lock. The caller releases it, by `release()` or `await using`. Until then the watchdog renews it, so prefer
   * `withLock`, which always releases.
   *
   * Nested calls share it only inside `lock.run(…)`.
   *
   * @throws LockWaitTimeoutError when the key is not free within `waitMs`
   * @throws LockStoreError, LockKeyError, LockShutdownError, LockDeadlockError, LockConfigurationError or `signal.reason`, as
   * `withLock` does
   * @example
   * ```ts
   * await using lock = await locks.acquire('goods:42', { waitMs: 2000 });
   * console.log(lock.fencingToken); // released at the end of the block
   * ```
   */
  acquire(key: Keys, options: CallOptions = NO_OPTIONS): Promise<Lock> {
    const site = this.callSites.mayNote() ? CallSite.record('acquire') : CallSite.UNNOTED;
    return this.lockFor(key, options, site);
  }

  /**
   * Acquires the lock as `acquire` does, but returns `null` when the key is not free. Does not wait, unless `waitMs` is in its options.
   *
   * @throws LockStoreError, LockKeyError, LockShutdownError, LockDeadlockError, LockConfigurationError or `signal.reason`, as
   * `withLock` does
   * @example
   * ```ts
   * await using lock = await locks.tryAcquire('report:nightly');
   * if (lock) console.log(lock.fencingToken); // released at the end of the block
   * ```
   */
  async tryAcquire(key: Keys, options: CallOptions = {}): Promise<Lock | null> {
    const site = this.callSites.mayNote() ? CallSite.record('acquire') : CallSite.UNNOTED;
    try {
      checkOptions('tryAcquire', options, CALL_RULES.acquire);
      return await this.lockFor(key, overlay(ONCE, options), site);
    } catch (error) {
      if (error instanceof LockWaitTimeoutError) return null;
      throw error;
    }
  }

  /**
   * Goes on with a lock that another process has detached by `lock.detach()`: under the watchdog, with the same fencing token, and with no
   * other holder in between. Releasing it is up to this process from now on. Nested calls share it only inside `lock.run(…)`.
   *
   * If the call fails with a `LockStoreError` whose reason is `unknown`, the lock may have been attached for a moment, and was then
   * released.
   *
   * @param baton what `lock.detach()` returned, in a process whose service has the same store and `keyPrefix`
   * @throws LockNotHeldError when the lock was attached already, its lease ran out, or it was released by force
   * @throws LockKeyError for a baton that was cut or changed on its way
   * @throws LockConfigurationError for wrong options, and for a baton of another release, kind of store or `keyPrefix`
   * @throws LockStoreError when the store does not answer within `waitMs` or cannot pass locks on; LockShutdownError; or `signal.reason`
   * @example
   * ```ts
   * const lock = await locks.acquire('report:7');
   * const baton = await lock.detach({ leaseMs: 60_000 });
   * // in another process:
   * await using attached = await locks.attach(baton);
   * ```
   */
  attach(baton: string, options: AttachOptions = NO_OPTIONS): Promise<Lock> {
    const site = this.callSites.mayNote() ? CallSite.record('attach') : CallSite.UNNOTED;
    try {
      checkOptions('attach', options, CALL_RULES.attach);
      const { acquirer } = this;
      const { keyPrefix } = this.options;
      const request = this.requests.attaching(
        readBaton(baton, { store: this.storeThatAttaches(), keyPrefix }),
        options,
        site,
      );
      if (isTraced()) return this.traced([request], () => acquirer.attach(request), site);
      return acquirer.attach(request);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /** The innermost lock of this async flow that is still held: of `key`, or of any key. `undefined` if there is none. Sends no request. */
  current(key?: string): Lock | undefined {
    return currentFlow()?.findLock(this.scope, key);
  }

  /**
   * Returns the lock of `key`, for code that must be called under it. Sends no request to the store.
   *
   * @throws LockNotHeldError when this async flow does not hold `key`
   * @throws LockLostError while it is not known whether the lock is still held
   * @throws LockKeyError for a key that is empty or no string
   */
  assertHeld(key: string): Lock {
    // Without a key, `current` would return the lock of any other key.
    checkKeyText(key);
    const lock = this.current(key);
    findHold(this.scope, key)?.assertBelieved();
    if (lock) return lock;
    const message = `"${key}" is not held by this async flow. Call this inside withLock("${key}", …) or @Locked.`;
    throw new LockNotHeldError(message, key);
  }

  /**
   * Lists the locks that this service holds, one entry for each caller that has a lock, in the order in which their owners began to
   * ask. It shows an operator what a process is working on. Sends no request to the store.
   */
  held(): readonly HoldSnapshot[] {
    return this.lifecycle.runtime?.owners.describeHolds() ?? [];
  }

  /**
   * Asks the store which owners hold `key`, who these are, and who waits for it; `null` if nobody does.
   *
   * @throws LockStoreError when the store cannot be reached, does not answer or refuses
   * @throws LockKeyError for a key that is empty or no string
   * @throws LockShutdownError when the application closes
   */
  async inspect(key: string): Promise<LockInspection | null> {
    const snapshot = await this.send(checkKeyText(key), (store) => store.inspect(key));
    return snapshot && this.nameHolders(snapshot);
  }

  /**
   * Asks the store whether anybody holds `key`, in this process or in another. The answer may be outdated when it arrives, so do not decide
   * by it whether to work: `tryAcquire` asks and acquires in one step.
   *
   * @throws LockStoreError when the store cannot be reached, does not answer or refuses
   * @throws LockKeyError for a key that is empty or no string
   * @throws LockShutdownError when the application closes
   */
  async isHeld(key: string): Promise<boolean> {
    const snapshot = await this.send(checkKeyText(key), (store) => store.inspect(key));
    return snapshot !== null && snapshot.holders.length > 0;
  }

  /**
   * Asks the store which keys are held or waited for, a page at a time. It helps an operator to find a lock that is not released. A key
   * that is acquired or released meanwhile may or may not be listed. On Redis and in a quorum a key may be on several pages. A key that
   * cannot be read is in `unreadable`, and does not fail the page.
   *
   * @throws LockStoreError when the store cannot be reached, does not answer or refuses; always for a store that cannot list its keys
   * @throws LockShutdownError when the application closes
   * @throws LockConfigurationError for wrong options
   */
  async list(options: ListOptions = {}): Promise<LockPage> {
    const request = listRequest(options);
    const page = await this.send(undefined, (store) => store.list(request));
    const entries = await Promise.all(page.entries.map((entry) => this.nameHolders(entry)));
    return { entries, unreadable: page.unreadable, cursor: page.cursor };
  }

  /**
   * Takes the lock from its holder, for an operator who knows that the holder is gone. If the holder uses this library and is still
   * there, it loses its lock at once, and its work goes on without it. Name the holders that you have seen, so that nobody else loses
   * the lock. One owner stands for all calls of a process that hand the lock on to each other.
   *
   * `not held`: nobody held the key. `held by another`: none of the named owners holds it any more, and nothing was done.
   *
   * @throws LockStoreError when the store cannot be reached, does not answer or refuses
   * @throws LockKeyError for a key that is empty or no string
   * @throws LockShutdownError when the application closes
   * @throws LockConfigurationError for wrong options
   * @example
   * ```ts
   * const found = await locks.inspect('goods:42');
   * if (found) await locks.forceRelease('goods:42', { owner: found.holders, by: 'alice' });
   * ```
   */
  async forceRelease(key: string, options: ForceReleaseOptions = {}): Promise<ForceReply> {
    const { owners, by = CallSite.record('forceRelease').line ?? 'forceRelease()' } = forceRequest(options);
    const { application } = this.options;
    // With `application: false`, do not reveal a line of the process's code either.
    const told = application === false ? options.by : `${by} (${holderName({ client: this.client })})`;
    const force = { ...(owners && { owners }), ...(told !== undefined && { by: told }) };
    const reply = await this.send(checkKeyText(key), (store) => store.forceRelease(key, force));
    if (reply === 'released') {
      this.events.emit({ type: 'forced', key, owner: undefined, holder: owners && listed(owners), by });
    }
    return reply;
  }

  /** Opens the store, unless it is open or closed, and emits one `opened` event. Does not wait for a connection. */
  open(): void {
    if (this.closing || this.isOpen) return;
    const internals = ServiceInternals.of(this);
    internals.hasBooted ||= internals.isBooting;
    internals.isBooting = false;
    this.lifecycle.stayOpen();
    const { store } = this.lifecycle.open();
    this.isOpen = true;
    if (!store.attempted) return this.onOpened(store);
    const told = store.attempted.then(() => this.onOpened(store));
    ignoreFailure(told);
  }

  /**
   * Refuses new calls, rejects callers that wait with `LockShutdownError`, gives holders `shutdownGraceMs` to finish, and then takes
   * their locks from them. Until then an async flow that holds a lock may acquire others, so that its work can end. Takes at most
   * `shutdownGraceMs` plus the time of two commands.
   */
  drain(): Promise<void> {
    this.acquirer.close();
    // In a turn of its own, so that `closing` is set before any listener of `shutdownSignal` runs: one that acquires is then refused,
    // and one that closes shares this drain.
    return (this.closing ??= Promise.resolve().then(() => this.drainNow()));
  }

  /** Drains, then closes the connections that the store has opened. A client that you gave to the store stays open. */
  async close(): Promise<void> {
    await this.drain();
    await this.lifecycle.runtime?.store.close();
    this.events.complete();
  }

  /** Returns the fields that a log shows of this service. Leaves out the options of the store and the keys that are held. */
  protected toJSON(): object {
    const { keyPrefix } = this.options;
    const store = this.lifecycle.runtime?.store;
    return { name: this.name, keyPrefix, store: store?.name, clientId: store?.clientId };
  }

  /** @returns the name of the store @throws LockStoreError if the store cannot pass locks on */
  private storeThatAttaches(): string {
    if (this.closing)
      throw new LockShutdownError('Nothing was attached: the application is closing.', undefined);
    const { store } = this.lifecycle.open();
    store.assertCan('attach');
    return store.name;
  }

  private onOpened({ name: store, clientId, address }: GuardedStore): void {
    const { client } = this;
    this.events.emit({ type: 'opened', key: undefined, store, clientId, client, address });
  }

  private async drainNow(): Promise<void> {
    this.lifecycle.stayOpen();
    this.acquirer.rejectWaitersWithoutLock();
    await this.lifecycle.runtime?.drain(this.options.shutdownGraceMs, () =>
      this.acquirer.rejectWaitersWithoutLock(),
    );
  }

  private nameHolders(snapshot: LockSnapshot): Promise<LockInspection> {
    return this.lifecycle.open().holderDirectory.describe(snapshot);
  }

  private async send<T>(key: string | undefined, command: (store: GuardedStore) => Promise<T>): Promise<T> {
    // The service closes, so a store that this call opened would never be closed.
    if (this.closing && !this.lifecycle.runtime)
      throw new LockShutdownError('The store was not asked: the application is closing.', key);
    return command(this.lifecycle.open().store);
  }

  /**
   * Acquires one or several keys. Not an async function: with one key, by far the most common case, that saves memory for each caller that
   * waits.
   *
   * @param site the line of the call; absent for `withLock`
   */
  private lockFor(keys: Keys, options: CallOptions, site?: CallSite): Promise<HeldLock> {
    try {
      const call = site ? 'acquire' : 'withLock';
      if (options !== NO_OPTIONS) checkOptions(call, options, CALL_RULES[call]);
      // Without the capability, the holder would never learn of the takeover.
      if (options.onBusy === 'takeover' && !this.closing) this.lifecycle.open().store.assertCan('takeover');
      const list = checkKeys(keys);
      if (isTraced()) {
        const several = this.requests.several(typeof list === 'string' ? [list] : list, options, site);
        return this.traced(several, () => this.acquirer.acquireSeveral(several), site);
      }
      if (typeof list === 'string') return this.acquirer.acquire(this.requests.of(list, options, site));
      return this.acquirer.acquireSeveral(this.requests.several(list, options, site));
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /** Acquires, and publishes the wait and the hold. A nested call, which only shares locks, publishes nothing. */
  private async traced(
    several: readonly LockRequest[],
    acquire: () => Promise<HeldLock>,
    site?: CallSite,
  ): Promise<HeldLock> {
    const { scope } = this;
    const [request] = several as readonly [LockRequest];
    const keys = several.map(({ key }) => key);
    if (!request.detached && keys.every((key) => findHold(scope, key))) return acquire();
    const call = {
      registration: this.name,
      key: request.key,
      keys,
      mode: modeOf(request.terms.claim),
      site: CallSite.textOf(request.site),
    };
    const lock = await traceCall(call, () => this.options.clock.now(), acquire);
    // A caller of `acquire` goes on in its own async context. In the other cases the hold begins with the work, which runs inside it.
    if (site && !isWaitOfMethod(request.signal)) lock.trace?.run(() => undefined);
    return lock;
  }
}

inspectByJson(LockService, 'LockService');

/** Lists the first owners, and how many more there are: a key may have thousands of readers. */
function listed(owners: readonly string[]): string {
  const more = owners.length > MAX_NAMED ? ` and ${owners.length - MAX_NAMED} more` : '';
  return owners.slice(0, MAX_NAMED).join(', ') + more;
}

function notFunctionError(given: unknown): LockConfigurationError {
  return new LockConfigurationError(
    `withLock takes a key, options or none, and a function to run; in place of the function it was given ${describeGiven(given)}.`,
  );
}
