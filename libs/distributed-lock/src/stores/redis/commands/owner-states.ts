import { RebuiltMap } from '../../../collections/rebuilt-map.js';
import type { Renewal } from '../../../port/lock-store.js';

/** What a later request of an owner must know of the earlier ones. */
export class OwnerState {
  /** Requests that have begun and not ended. */
  requests = 0;
  isReleasing = false;
  /** The last one under way: an earlier renewal that is sent again must not be executed after it. */
  latestRenewal: Renewal | undefined;
  /** The not-after, in server time, of each acquire that was sent and never answered. It may be executed until then. */
  private readonly unanswered: number[] = [];

  get hasUnanswered(): boolean {
    return this.unanswered.length > 0;
  }

  /** From then on the server refuses all acquires of this owner that were never answered. */
  get lateUntil(): number {
    return Math.max(-1, ...this.unanswered);
  }

  onAcquireSent(notAfter: number): void {
    this.unanswered.push(notAfter);
  }

  /** The acquire was executed, or never will be. */
  onAcquireAnswered(notAfter: number): void {
    const at = this.unanswered.indexOf(notAfter);
    if (at >= 0) this.unanswered.splice(at, 1);
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
