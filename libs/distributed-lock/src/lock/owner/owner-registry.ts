import type { AcquireLoop } from './acquire-loop.js';
import { RebuiltMap } from '../../collections/rebuilt-map.js';
import type { Clock } from '../../time/clock.js';
import { FairQueues } from './fair-queues.js';
import type { Owned } from '../../async/in-background.js';
import type { LockRuntime } from '../lock-runtime.js';
import type { LockShutdownError } from '../../port/lock.errors.js';
import type { LockRequest } from '../request/lock-request.js';
import type { ReleaseReply, LockStore, Notification } from '../../port/lock-store.js';
import { Delays } from '../../time/delays.js';
import { Owner, type Callers } from './owner.js';
import type { Watchdog } from '../lease/watchdog.js';

/**
 * The tenures of one service by owner, each from before its first command until it ends.
 *
 * A push for an owner that is not here is stale: the store repeats that owner's end until no grant of it can be left.
 */
export class OwnerRegistry {
  readonly clock: Clock;
  readonly store: LockStore;
  readonly fairQueues = new FairQueues<AcquireLoop>();
  private readonly byOwner = new RebuiltMap<string, Owner>();
  private ending = 0;
  private onAllEnded: (() => void) | undefined;
  private readonly pauses: Delays;
  private entered = 0;
  shutdownErrorOf: ((key: string) => LockShutdownError) | undefined;
  private onIdle: (() => void) | undefined;

  constructor(
    private readonly core: LockRuntime,
    private readonly watchdog: Watchdog,
  ) {
    this.clock = core.clock;
    this.store = core.store;
    this.pauses = new Delays(core.clock);
  }

  /** A new owner that asks for these callers. */
  open(callers: Callers, request: LockRequest): Owner {
    return new Owner(callers, request, this.core, { registry: this, watchdog: this.watchdog });
  }

  /** Gives the tenure an owner id that was never used before. */
  register(tenure: Owner): string {
    const owner = `${this.store.clientId}:${++this.entered}`;
    this.byOwner.set(owner, tenure);
    return owner;
  }

  deregister({ id }: Owner): void {
    this.byOwner.delete(id);
    if (this.byOwner.size === 0) this.onIdle?.();
  }

  /**
   * Follows what ends a tenure; shutdown waits for it.
   *
   * @returns its reply; `unknown` when it has failed, which is told by event
   */
  track(key: string, ended: Promise<ReleaseReply>): Owned<ReleaseReply> {
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
    ) as Owned<ReleaseReply>;
  }

  onNotification(push: Notification): void {
    if (push.owner !== undefined) return this.byOwner.get(push.owner)?.onNotification(push);
    for (const tenure of this.byOwner.values()) tenure.onNotification(push);
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
  held(): Owner[] {
    return [...this.byOwner.values()].filter((tenure) => tenure.isHeld);
  }

  /** The service begins to close: holders are told why they should end. */
  beginShutdown(errorOf: (key: string) => LockShutdownError): void {
    this.shutdownErrorOf = errorOf;
    for (const tenure of this.held()) tenure.tellShutdown();
  }

  /** Before something that only ends a tenure; shutdown does not wait for it. */
  pause(ms: number): Promise<void> {
    return this.pauses.wait(ms);
  }

  /** Nobody asks and nobody is inside; ends may be under way. */
  whenIdle(): Promise<void> {
    if (this.byOwner.size === 0) return Promise.resolve();
    return new Promise((resolve) => (this.onIdle = resolve));
  }

  /** All ends are certain, or have failed; what was put off is done now. */
  async whenAllEnded(): Promise<void> {
    this.pauses.endAll();
    if (this.ending > 0) await new Promise<void>((resolve) => (this.onAllEnded = resolve));
  }

  private onEnded(): void {
    this.ending -= 1;
    if (this.ending === 0) this.onAllEnded?.();
  }
}
