import type { AcquireRequest, Renewal, RenewalReply } from '../../port/lock-store.js';
import { askNode } from './acquire.js';
import { answersOf, count, gather } from './majority.js';
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
  const asked = leases.counted();
  const outcomes = await gather(
    asked.map((node) => node.renew(renewal)),
    (so) => {
      const replies = answersOf(so);
      return count(replies, 'renewed') >= majority || count(replies, 'lost') > asked.length - majority;
    },
  );
  if (!leases.isHeld(token)) {
    // Under another token the owner has another grant by now, of which this renewal says nothing.
    if (!leases.isHeld()) leases.drop();
    return { kind: 'lost' };
  }
  if (count(answersOf(outcomes), 'renewed') < majority) {
    const byNode = owner.nodes.map((node) => outcomes[asked.indexOf(node)]);
    return { kind: 'unknown', error: noMajority(nodes, byNode, key) };
  }
  const counted = leases.counted();
  const others = owner.nodes.filter((node) => !counted.includes(node));
  for (const node of others) invite(owner, node);
  const { validUntil, waiting } = leases.grant();
  return { kind: 'renewed', validUntil, waiting };
}

/** Asks one more node for its node lease while the lock is held, so that the lock survives the failure of another node. */
export function invite(owner: QuorumOwner, node: NodeOwner): void {
  const request: AcquireRequest = { ...(owner.request as AcquireRequest), waitMs: 0, tokens: 1 };
  askNode(owner, node, request).catch(() => undefined);
}
