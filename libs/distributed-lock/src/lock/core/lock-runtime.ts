import { type Chance, type Clock, detachedClock, guardedClock, within } from '../../common/clock.js';
import { RebuiltMap } from '../../common/collections.js';
import { detached, inBackground } from '../../common/promises.js';
import type { LockClient, Notification } from '../../port/lock-store.js';
import { LockShutdownError } from '../../port/lock.errors.js';
import type { EventHub } from '../events/event-hub.js';
import type { HoldSnapshot } from '../lock.js';
import { CallSite } from '../request/call-site.js';
import type { ResolvedLockOptions } from '../request/lock-options.js';
import type { AcquireLoop } from './acquire-loop.js';
import { WaitDeadlines } from './call.js';
import { GuardedStore } from './guarded-store.js';
import type { Hold } from './hold.js';
import { HolderDirectory } from './holder-directory.js';
import type { Owner } from './owner.js';
import { Watchdog } from './watchdog.js';

/** If closing takes longer than this, the service warns which locks it is waiting for. */
const SILENT_CLOSE_MS = 1000;
const MAX_KEYS_NAMED = 5;

/** The open store of one service, and the parts that all of its keys share. */
export class LockRuntime {
  /** Identifies the holds of this service, because one async flow may have holds of several services. */
  readonly scope: symbol;
  /** Which process this is, for people; `undefined` if the store is not to know (`application: false`). */
  readonly client: LockClient | undefined;
  readonly clock: Clock;
  /** The same clock, for timers that only inform people (holder names, warnings). An error in such a timer becomes an `error` event. */
  readonly naming: Clock;
  readonly chance: Chance;
  readonly watchdogTimeoutMs: number;
  readonly keyPrefix: string;
  readonly store: GuardedStore;
  readonly deadlines: WaitDeadlines;
  readonly watchdog: Watchdog;
  readonly owners: OwnerRegistry;
  readonly holderDirectory: HolderDirectory;
  readonly forgottenReleases: ForgottenReleases;
  /** The acquire loops of fair callers, by key and kind of claim. Only `AcquireLoop` changes this. */
  readonly fairQueues = new Map<string, AcquireLoop[]>();
  readonly events: EventHub;
  readonly emit: EventHub['emit'];
  readonly hears: EventHub['hears'];

  constructor({ scope, options, client, events }: Service) {
    const { emit, hears } = events;
    const { keyPrefix, watchdogTimeoutMs, chance } = options;
    const clock = detachedClock(options.clock);
    const onError = (during: string, error: unknown, key?: string) =>
      emit({ type: 'error', key, during, error });
    const store = options.store.create({
      clock,
      chance,
      keyPrefix,
      watchdogTimeoutMs,
      ...(client && { client }),
      onError,
      onWarning: (message) => events.warn(message),
      onState: (state) => emit({ type: 'store', key: undefined, store: this.store.name, state }),
    });
    this.scope = scope;
    this.client = client;
    this.clock = clock;
    this.naming = guardedClock(clock, (error) => onError('naming', error));
    this.chance = chance;
    this.watchdogTimeoutMs = watchdogTimeoutMs;
    this.keyPrefix = keyPrefix;
    this.events = events;
    this.emit = emit;
    this.hears = hears;
    this.store = new GuardedStore(store, clock, onError);
    this.deadlines = new WaitDeadlines(clock);
    this.watchdog = new Watchdog(this);
    this.owners = new OwnerRegistry(this);
    this.holderDirectory = new HolderDirectory(this);
    this.forgottenReleases = new ForgottenReleases(this);
    this.store.notifications$.subscribe((notification) => {
      this.owners.onNotification(notification);
      if (notification.kind === 'gap') this.watchdog.check();
    });
  }

  /**
   * Waits until no owner holds or waits. When the grace is over, marks the locks that are still held as lost. Then waits for the
   * releases, for two `commandTimeoutMs` at most.
   *
   * @param onLost called after that loss, to reject callers that were let wait only because their flow held a lock
   */
  async drain(graceMs: number, onLost: () => void): Promise<void> {
    const { clock, owners, store } = this;
    const cancelGrace = clock.after(graceMs, () => {
      owners.loseAll(`the application closes and its grace of ${graceMs} ms is over`);
      onLost();
    });
    const cancelWarning = this.naming.after(SILENT_CLOSE_MS, () => this.warnOfHolders(graceMs));
    owners.beginShutdown((key) => closing(key, graceMs));
    await owners.whenEmpty();
    cancelGrace();
    cancelWarning();
    this.stopTimers();
    await within(clock, 2 * store.commandTimeoutMs, store.finishReleases());
  }

  private warnOfHolders(graceMs: number): void {
    // Name the locks of `acquire()` first: only there can a caller forget the release.
    const isSuspect = ({ site }: { readonly site: unknown }) => site instanceof CallSite;
    const holds = [...this.owners.allHolds()].sort((a, b) => +isSuspect(b) - +isSuspect(a));
    const [first] = holds;
    if (!first || graceMs <= SILENT_CLOSE_MS) return;
    const named = holds.slice(0, MAX_KEYS_NAMED).map((hold) => holdText(hold.describe()));
    if (holds.length > named.length) named.push(`${holds.length - named.length} more`);
    const question = isSuspect(first)
      ? ' Was a lock of acquire() never released? Use withLock or await using.'
      : '';
    const message = `The application waits with closing, ${graceMs} ms at most, for locks that are still held: ${named.join(', ')}.${question} Long work should end by lock.shutdownSignal.`;
    this.events.warn(message);
  }

  stopTimers(): void {
    this.watchdog.stop();
    this.holderDirectory.stop();
    this.forgottenReleases.stop();
    this.deadlines.stop();
  }
}

interface Service {
  readonly scope: symbol;
  readonly options: ResolvedLockOptions;
  readonly client: LockClient | undefined;
  readonly events: EventHub;
}

/** As in `"goods:42" (GoodsController.purchase, for 12 s)`. */
function holdText({ key, site, heldMs }: HoldSnapshot): string {
  const since = `for ${Math.round(heldMs / 1000)} s`;
  return `"${key}" (${site === undefined ? since : `${site}, ${since}`})`;
}

function closing(key: string, graceMs: number): LockShutdownError {
  const message = `The application is closing: end the work under "${key}" within ${graceMs} ms, or the lock is taken from it.`;
  return new LockShutdownError(message, key);
}

/**
 * The owners of one service by id, each from before its first request until it has ended.
 *
 * A notification for an owner that is not here is stale and is ignored: the store repeats the release of an ended owner until no grant
 * of it can be left.
 */
class OwnerRegistry {
  /** How many owners there have been since the start. The id of the next owner ends with this number plus one. */
  count = 0;
  /** Makes the error with which `shutdownSignal` aborts. `undefined` until the service begins to close. */
  shutdownErrorOf: ((key: string) => LockShutdownError) | undefined;
  private readonly byId = new RebuiltMap<string, Owner>();
  private onEmpty: (() => void) | undefined;

  constructor(private readonly runtime: LockRuntime) {}

  get isEmpty(): boolean {
    return this.byId.size === 0;
  }

  [Symbol.iterator](): IterableIterator<Owner> {
    return this.byId.values();
  }

  get(id: string): Owner | undefined {
    return this.byId.get(id);
  }

  /** Whether one of the first `count` owners has not ended yet. Owner ids are numbered, so this looks at the oldest owner only. */
  hasOneOf(count: number): boolean {
    const [oldest] = this;
    return oldest !== undefined && Number(oldest.id.slice(this.runtime.store.clientId.length + 1)) <= count;
  }

  /** Adds an owner. @returns its id, which was never used before */
  register(owner: Owner): string {
    const id = `${this.runtime.store.clientId}:${++this.count}`;
    this.byId.set(id, owner);
    this.runtime.holderDirectory.onOwner();
    return id;
  }

  deregister({ id }: Owner): void {
    this.byId.delete(id);
    if (this.isEmpty) this.onEmpty?.();
  }

  onNotification(notification: Notification): void {
    if (notification.owner !== undefined) this.get(notification.owner)?.onNotification(notification);
    else for (const owner of this) owner.onNotification(notification);
  }

  beginShutdown(errorOf: (key: string) => LockShutdownError): void {
    this.shutdownErrorOf = errorOf;
    for (const hold of this.allHolds()) hold.tellShutdown();
  }

  loseAll(detail: string): void {
    for (const owner of this) if (owner.isHeld) owner.onLost('shutdown', detail);
  }

  whenEmpty(): Promise<void> {
    if (this.isEmpty) return Promise.resolve();
    return new Promise((resolve) => (this.onEmpty = resolve));
  }

  *allHolds(): Generator<Hold> {
    for (const owner of this) yield* owner.holds;
  }

  describeHolds(): readonly HoldSnapshot[] {
    return Array.from(this.allHolds(), (hold) => hold.describe());
  }
}

/** How long a lock of `acquire()` may be held while callers of this process wait for it, before a warning names the line that acquired it. */
const FORGOTTEN_AFTER_MS = 1000;

/**
 * Warns of each line of code whose `acquire()` keeps other callers of its process waiting for long, mostly because a release was forgotten.
 * Each line is named only once, because a lock may also be held for long on purpose.
 */
class ForgottenReleases {
  private readonly named = new Set<string>();
  private cancel: (() => void) | undefined;

  constructor(private readonly runtime: LockRuntime) {}

  /** Called when a caller waits for a lock that `acquire()` has taken. One timer serves all such locks. */
  onWaiter(): void {
    this.cancel ??= this.runtime.naming.after(FORGOTTEN_AFTER_MS, () => this.onTime());
  }

  stop(): void {
    this.cancel?.();
  }

  private onTime(): void {
    this.cancel = undefined;
    for (const { owner, acquireSite, acquiredAt } of this.runtime.owners.allHolds()) {
      if (!acquireSite || owner.callers.size === 0) continue;
      const line = acquireSite.line ?? 'acquire()';
      if (this.named.has(line)) continue;
      const heldMs = owner.now - acquiredAt;
      if (heldMs < FORGOTTEN_AFTER_MS) {
        this.onWaiter();
        continue;
      }
      this.named.add(line);
      const message = `Callers of this process wait for "${owner.key}", which it has held for ${Math.round(heldMs)} ms by ${line}. Was that lock never released? Use withLock or await using. If it is held so long on purpose, ignore this: it is said once.`;
      this.runtime.events.warn(message);
    }
  }
}

/** A store that was opened while the application boots is closed again when it has not been used for this long. */
const REST_MS = 1000;

/** Opens the store of one service at the first use of the service, and closes it. */
export class RuntimeLifecycle {
  runtime: LockRuntime | undefined;
  private cancelRest: (() => void) | undefined;

  constructor(
    private readonly create: () => LockRuntime,
    /**
     * Whether the application is still booting. A store that is opened by then is closed again at rest: Nest does not report a failed boot,
     * and open connections would keep its process alive.
     */
    private readonly isBooting: () => boolean,
  ) {}

  open(): LockRuntime {
    if (this.runtime) return this.runtime;
    const runtime = (this.runtime = detached(this.create));
    if (this.isBooting()) this.closeAtRest(runtime);
    return runtime;
  }

  /** Called when the boot has ended: from now on an open store is not closed at rest. */
  stayOpen(): void {
    this.cancelRest?.();
  }

  private closeAtRest(runtime: LockRuntime): void {
    const { clock, owners, store, emit } = runtime;
    const ownersBefore = owners.count;
    this.cancelRest = clock.after(REST_MS, () => {
      const isAtRest = owners.isEmpty && store.isAtRest && owners.count === ownersBefore;
      if (!isAtRest) return this.closeAtRest(runtime);
      this.runtime = undefined;
      runtime.stopTimers();
      inBackground(store.close(), (error) => emit({ type: 'error', key: undefined, during: 'close', error }));
    });
  }
}
