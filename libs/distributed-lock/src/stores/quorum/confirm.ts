import type { Renewal, RenewalReply } from '../../port/lock-store.js';
import { answersOf, count, gather, type Outcomes } from './majority.js';
import type { QuorumOwner } from './quorum.owner.js';

/**
 * When the leases of a lock are renewed for newcomers to count. Most locks are released before, and so cost nothing. Until then
 * the lock does not survive the failure of a node of its first majority.
 */
const CONFIRM_MS = 100;

/**
 * Renews all node leases, and counts the newcomers among them if a majority of the others is renewed.
 *
 * @returns one outcome for each node, `undefined` for those whose lease does not count
 */
export async function renewNodes(owner: QuorumOwner, renewal: Renewal): Promise<Outcomes<RenewalReply>> {
  const { leases, context } = owner;
  const { majority } = context;
  const asked = leases.counted();
  const newcomers = leases.newcomers();
  const renewed = asked.map((node) => node.renew(renewal));
  for (const node of newcomers.keys()) context.inBackground(node.renew(renewal));
  owner.renewalsUnderWay += 1;
  const outcomes = await gather(renewed, (so) => {
    const replies = answersOf(so);
    return count(replies, 'renewed') >= majority || count(replies, 'lost') > asked.length - majority;
  });
  owner.renewalsUnderWay -= 1;
  const isConfirmed = count(answersOf(outcomes), 'renewed') >= majority;
  if (isConfirmed && leases.isHeld(renewal.token)) leases.confirm(newcomers);
  return owner.nodes.map((node) => outcomes[asked.indexOf(node)]);
}

/**
 * Lets newcomers count soon, and not only at the next renewal, which may be 10 s away. The node leases become as long as for any
 * renewal, as one to less could undo a renewal that is under way: so a lease that nobody renews may block the key for `CONFIRM_MS`
 * more.
 *
 * While another renewal is under way, it waits for its outcome: with a later renewal in flight, the answer to an earlier one no longer
 * prolongs a node lease, so that an `extend` would resolve and leave the old end.
 */
export function confirmSoon(owner: QuorumOwner): void {
  const { context, leases } = owner;
  if (owner.cancelConfirming || owner.hasLeft || leases.newcomers().size === 0) return;
  owner.cancelConfirming = context.clock.after(CONFIRM_MS, () => {
    owner.cancelConfirming = undefined;
    if (owner.renewalsUnderWay > 0) return confirmSoon(owner);
    if (owner.request && leases.isHeld() && leases.newcomers().size > 0) {
      const { key, claim, leaseMs } = owner.request;
      const { token, lastToken } = leases.grant();
      context.inBackground(renewNodes(owner, { key, claim, leaseMs, owner: owner.name, token, lastToken }));
    }
  });
}
