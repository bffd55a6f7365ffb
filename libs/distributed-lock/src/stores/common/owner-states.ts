import { RebuiltMap } from '../../collections/rebuilt-map.js';
import type { Renewal } from '../../port/lock-store.js';

/** The state of one owner that its later requests depend on. */
export class OwnerState {
  /** Requests that have begun and not ended. */
  requests = 0;
  isReleasing = false;
  /** The last one under way: an earlier renewal that is sent again must not be executed after it. */
  latestRenewal: Renewal | undefined;
  /** The latest not-after of the acquires that were sent and never answered, in server time. -1 without one. */
  lateUntil = -1;
  /** `lateUntil` without the acquire in flight. An owner has one acquire in flight at a time. */
  private earlierUntil = -1;

  get hasUnanswered(): boolean {
    return this.lateUntil >= 0;
  }

  onAcquireSent(notAfter: number): void {
    this.earlierUntil = this.lateUntil;
    this.lateUntil = Math.max(this.lateUntil, notAfter);
  }

  /** The acquire was executed, or never will be. */
  onAcquireAnswered(): void {
    this.lateUntil = this.earlierUntil;
  }
}

/** The owners that have a request under way, or an acquire that may be executed late. */
export class OwnerStates {
  private readonly owners = new RebuiltMap<string, OwnerState>();

  isReleasing(owner: string): boolean {
    return this.owners.get(owner)?.isReleasing ?? false;
  }

  /** A request of `owner` begins: its `end` must follow. */
  begin(owner: string): OwnerState {
    let state = this.owners.get(owner);
    if (!state) this.owners.set(owner, (state = new OwnerState()));
    state.requests += 1;
    return state;
  }

  end(owner: string): void {
    const state = this.owners.get(owner);
    if (!state) return;
    state.requests -= 1;
    const mustStay = state.hasUnanswered && !state.isReleasing;
    if (state.requests === 0 && !mustStay) this.owners.delete(owner);
  }

  isLatest(renewal: Renewal): boolean {
    return this.owners.get(renewal.owner)?.latestRenewal === renewal;
  }
}
