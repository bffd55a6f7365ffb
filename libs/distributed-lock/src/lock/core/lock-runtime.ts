import { type Chance, type Clock, clockWithoutContext, guardedClock, within } from '../../common/clock.js';
import { withoutContext, inBackground } from '../../common/promises.js';
import type { LockClient } from '../../port/lock-store.js';
import { LockShutdownError } from '../../port/lock.errors.js';
import type { EventHub } from '../events/event-hub.js';
import type { HoldSnapshot } from '../lock.js';
import { CallSite } from '../request/call-site.js';
import type { ResolvedLockOptions } from '../request/lock-options.js';
import { WaitDeadlines } from './call.js';
import { FairQueues } from './fair-queues.js';
import { ForgottenReleases } from './forgotten-releases.js';
import { GuardedStore } from './guarded-store.js';
import { HolderDirectory } from './holder-directory.js';
import { OwnerRegistry } from './owner-registry.js';
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
  readonly fairQueues = new FairQueues();
  readonly events: EventHub;
  readonly emit: EventHub['emit'];
  readonly hears: EventHub['hears'];

  constructor({ scope, options, client, events }: Service) {
    const { emit, hears } = events;
    const { keyPrefix, watchdogTimeoutMs, chance } = options;
    const clock = clockWithoutContext(options.clock);
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
    const runtime = (this.runtime = withoutContext(this.create));
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
