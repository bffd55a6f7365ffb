import type { Notification } from '../../port/lock-store.js';
import { attemptAgain } from './acquire.js';
import type { NodeOwner } from './node-owner.js';
import type { QuorumNode } from './quorum.node.js';
import type { QuorumOwner } from './quorum.owner.js';
import { invite } from './renew.js';

/** Acts on a notification of one node for an attempt of this owner. A notification for an earlier attempt is ignored. */
export function onNotification(
  owner: QuorumOwner,
  from: QuorumNode,
  notification: Notification & { readonly owner: string },
): void {
  const { leases, context, name } = owner;
  const node = owner.nodes.find((each) => each.node === from);
  if (!node?.isNamed(notification.owner) || owner.hasLeft) return;
  switch (notification.kind) {
    case 'granted':
      if (leases.isHeld()) invite(owner, node);
      else attemptAgain(owner);
      return;
    case 'contended':
    case 'takeover':
      if (leases.isHeld()) context.notify({ ...notification, owner: name });
      return;
    case 'lost':
      return onForced(owner, node, notification);
    case 'recheck':
      return context.notify({ ...notification, owner: name });
    default:
      notification satisfies never;
  }
}

function onForced({ leases, context, name }: QuorumOwner, node: NodeOwner, lost: Lost): void {
  const wasHeld = leases.isHeld();
  node.lease = undefined;
  if (!wasHeld || leases.isHeld()) return;
  leases.drop();
  context.notify({ ...lost, owner: name });
}

type Lost = Extract<Notification, { readonly kind: 'lost' }>;
