import { inBackground } from '../../async-context/in-background.js';
import { timeOfDay } from '../../time/clock.js';
import { siteText } from '../request/call-site.js';
import type { LockRequest } from '../request/lock-request.js';
import type { LockRuntime } from '../runtime/lock-runtime.js';

/**
 * A notified holder releases by itself when its grace is over. If it has not this many ms later, the lock is released by
 * force.
 */
export const FORCED_AFTER_MS = 250;

/**
 * Takes the lock over for an owner that waits at the head of the queue.
 *
 * The store notifies each holder that a recheck finds, and that holder has its grace. If it still has the lock afterwards,
 * the takeover releases the lock by force. The store then grants it to the head of the queue.
 */
export class Takeover {
  private holder: string | undefined;
  private forcedAt = Infinity;

  constructor(
    private readonly owner: WaitingOwner,
    private readonly graceMs: number,
    private readonly request: Pick<LockRequest, 'key' | 'site'>,
    private readonly runtime: LockRuntime,
  ) {}

  /**
   * Ahead of the tickets that stores give out. Earlier takeovers are ahead of later ones, as far as the clocks of their
   * processes agree.
   */
  firstTicket(): number {
    return timeOfDay(this.runtime.clock) - Number.MAX_SAFE_INTEGER;
  }

  /** @returns in how many ms the owner rechecks, to take the lock from this holder by force */
  onHolder(holder: string | undefined): number {
    if (holder === undefined) return Infinity;
    const { now } = this.owner;
    if (holder !== this.holder) {
      this.holder = holder;
      this.forcedAt = now + this.graceMs + FORCED_AFTER_MS;
      this.announce(holder);
    }
    if (now < this.forcedAt) return this.forcedAt - now;
    this.force(holder);
    return Infinity;
  }

  private announce(owner: string): void {
    const { graceMs, request, runtime } = this;
    const by = runtime.introductions.nameOf(this.owner.id, siteText(request.site));
    const { key } = request;
    inBackground(runtime.store.announceTakeover({ key, owner, graceMs, by }), (error) =>
      this.onFailed(error),
    );
  }

  /** After a failure the next recheck finds the same holder, and tries again. */
  private force(holder: string): void {
    const { owner, request, runtime } = this;
    const { key } = request;
    const forced = runtime.store.forceRelease(key, { owners: [holder] }).then((reply) => {
      if (reply === 'released') runtime.emit({ type: 'forced', key, owner: owner.id, holder });
      else owner.askNow();
    });
    inBackground(forced, (error) => this.onFailed(error));
  }

  private onFailed(error: unknown): void {
    this.runtime.emit({ type: 'error', key: this.request.key, during: 'takeover', error });
  }
}

/** The owner that waits. Implemented by `Owner`. */
interface WaitingOwner {
  readonly id: string;
  readonly now: number;
  askNow(): void;
}
