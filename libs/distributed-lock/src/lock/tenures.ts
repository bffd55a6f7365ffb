import type { Asking } from './asking.js';
import { ChurningMap } from './churning-map.js';
import type { Clock } from './clock.js';
import { FairQueues } from './fair-queues.js';
import type { Owned } from './in-background.js';
import type { LockCore } from './lock-core.js';
import type { LockShutdownError } from './lock.errors.js';
import type { LockRequest } from './lock-request.js';
import type { EndReply, LockStore, Push } from './lock-store.js';
import { Pauses } from './pauses.js';
import { Tenure, type Callers } from './tenure.js';
import type { Watchdog } from './watchdog.js';

/**
 * The tenures of one service by owner, each from before its first command until it ends.
 *
 * A push for an owner that is not here is stale: the store repeats that owner's end until no grant of it can be left.
 */
export class Tenures {
  readonly clock: Clock;
  readonly store: LockStore;
  readonly fairQueues = new FairQueues<Asking>();
  private readonly byOwner = new ChurningMap<string, Tenure>();
  private ending = 0;
  private onAllEnded: (() => void) | undefined;
  private readonly pauses: Pauses;
  private entered = 0;
  private hasClosed = false;
  shutdownErrorOf: ((key: string) => LockShutdownError) | undefined;
  private onIdle: (() => void) | undefined;

  constructor(
    private readonly core: LockCore,
    private readonly watchdog: Watchdog,
  ) {
    this.clock = core.clock;
    this.store = core.store;
    this.pauses = new Pauses(core.clock);
  }

  /** A new owner that asks for these callers. */
  open(callers: Callers, request: LockRequest): Tenure {
    return new Tenure(callers, request, this.core, { registry: this, watchdog: this.watchdog });
  }

  /** Set by shutdown: what only ends a tenure is not tried again. */
  isClosing(): boolean {
    return this.hasClosed;
  }

  /** Gives the tenure an owner id that was never used before. */
  enter(tenure: Tenure): string {
    const owner = `${this.store.clientId}:${++this.entered}`;
    this.byOwner.set(owner, tenure);
    return owner;
  }

  leave({ owner }: Tenure): void {
    this.byOwner.delete(owner);
    if (this.byOwner.size === 0) this.onIdle?.();
  }

  /**
   * Follows what ends a tenure; shutdown waits for it.
   *
   * @returns its reply; `unknown` when it has failed, which is told by event
   */
  track(key: string, ended: Promise<EndReply>): Owned<EndReply> {
    this.ending += 1;
    return ended.then(
      (reply) => {
        this.onEnded();
        return reply;
      },
      (error: unknown) => {
        this.core.emit({ type: 'error', key, during: 'release', error });
        this.onEnded();
        return 'unknown';
      },
    ) as Owned<EndReply>;
  }

  onPush(push: Push): void {
    if (push.owner !== undefined) return this.byOwner.get(push.owner)?.onPush(push);
    for (const tenure of this.byOwner.values()) tenure.onPush(push);
  }

  /** How many there ever were. */
  get owners(): number {
    return this.entered;
  }

  /** Nobody asks and nobody is inside, and all ends are certain, or have failed. */
  get areAllEnded(): boolean {
    return this.byOwner.size === 0 && this.ending === 0;
  }

  /** Those that somebody is inside of. */
  held(): Tenure[] {
    return [...this.byOwner.values()].filter((tenure) => tenure.isHeld);
  }

  /** The service begins to close: holders are told why they should end. */
  beginShutdown(errorOf: (key: string) => LockShutdownError): void {
    this.shutdownErrorOf = errorOf;
    for (const tenure of this.held()) tenure.tellShutdown();
  }

  /** Before something that only ends a tenure; shutdown does not wait for it. */
  pause(ms: number): Promise<void> {
    return this.pauses.pause(ms);
  }

  /** Nobody asks and nobody is inside; ends may be under way. */
  whenIdle(): Promise<void> {
    if (this.byOwner.size === 0) return Promise.resolve();
    return new Promise((resolve) => (this.onIdle = resolve));
  }

  /** All ends are certain, or have failed; what was put off is done now. */
  async whenAllEnded(): Promise<void> {
    this.hasClosed = true;
    this.pauses.wakeAll();
    if (this.ending > 0) await new Promise<void>((resolve) => (this.onAllEnded = resolve));
  }

  private onEnded(): void {
    this.ending -= 1;
    if (this.ending === 0) this.onAllEnded?.();
  }
}
