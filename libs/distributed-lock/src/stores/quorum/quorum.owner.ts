import { Delays } from '../../time/delays.js';
import type { AcquireRequest } from '../../port/lock-store.js';
import { NodeLeases } from './node-leases.js';
import { NodeOwner } from './node-owner.js';
import { OneAtATime } from './one-at-a-time.js';
import { attemptId } from './owner-ids.js';
import type { QuorumContext } from './quorum.context.js';

/** The request and the node leases of one owner. Only `acquire`, `renew`, `release` and `onNotification` change them. */
export class QuorumOwner {
  readonly nodes: readonly NodeOwner[];
  readonly leases: NodeLeases;
  /** One attempt at a time, so that each counts the node leases that the one before has left. */
  readonly attempts = new OneAtATime();
  readonly pauses: Delays;
  /** The last request of the core. */
  request: AcquireRequest | undefined;
  /** Until when the most patient caller waits. */
  deadline = 0;
  /** One ticket for all nodes, so that their queues have the same order. */
  ticket = 0;
  hasLeft = false;
  /** A notification has asked for an attempt that has not begun. */
  isAttemptDue = false;
  /** Renewals that have no majority of answers yet. */
  renewalsUnderWay = 0;
  cancelGivingBack: (() => void) | undefined;
  cancelConfirming: (() => void) | undefined;

  constructor(
    readonly name: string,
    readonly context: QuorumContext,
  ) {
    const { nodes, clock } = context;
    this.pauses = new Delays(clock);
    this.nodes = nodes.map(
      (node) => new NodeOwner(node, clock, () => attemptId(node.store, name, context.nextAttempt())),
    );
    this.leases = new NodeLeases(this.nodes, context);
  }

  /** No node knows it, and no attempt is under way. */
  get isIdle(): boolean {
    return this.attempts.isIdle && this.nodes.every(({ isOpen }) => !isOpen);
  }

  /** Its caller has left: no attempt follows, and no timer is left. */
  leave(): void {
    this.hasLeft = true;
    this.cancelGivingBack?.();
    this.cancelConfirming?.();
    this.pauses.endAll();
  }
}
