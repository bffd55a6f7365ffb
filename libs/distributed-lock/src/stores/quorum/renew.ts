import type { AcquireRequest, Renewal, RenewalReply } from '../../port/lock-store.js';
import { askNode } from './acquire.js';
import { renewNodes } from './confirm.js';
import { answersOf, count } from './majority.js';
import type { NodeOwner } from './node-owner.js';
import { noMajority } from './quorum.errors.js';
import type { QuorumOwner } from './quorum.owner.js';

/** Renews if a majority of the nodes renews. The lock is lost when no majority of the node leases is left. */
export async function renew(owner: QuorumOwner, renewal: Renewal): Promise<RenewalReply> {
  const { leases, request } = owner;
  const { majority, nodes } = owner.context;
  const { key, claim, leaseMs, token } = renewal;
  if (!request || !leases.isHeld(token)) return { kind: 'lost' };
  owner.request = { ...request, claim, leaseMs };
  const outcomes = await renewNodes(owner, renewal);
  if (!leases.isHeld(token)) {
    // Under another token the owner has another grant by now, of which this renewal says nothing.
    if (!leases.isHeld()) leases.drop();
    return { kind: 'lost' };
  }
  if (count(answersOf(outcomes), 'renewed') < majority) {
    return { kind: 'unknown', error: noMajority(nodes, outcomes, key) };
  }
  for (const node of owner.nodes) if (!node.lease) invite(owner, node);
  const { validUntil, waiting } = leases.grant();
  return { kind: 'renewed', validUntil, waiting };
}

/** Asks one more node for its node lease while the lock is held, so that the lock survives the failure of another node. */
export function invite(owner: QuorumOwner, node: NodeOwner): void {
  const request: AcquireRequest = { ...(owner.request as AcquireRequest), waitMs: 0, tokens: 1 };
  askNode(owner, node, request).catch(() => undefined);
}
