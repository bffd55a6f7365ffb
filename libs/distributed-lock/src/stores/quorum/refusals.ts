import type { AcquireReply, Busy, Queued } from '../../port/lock-store.js';
import { recheckAfter } from '../../port/recheck-interval.js';
import { ownerOf } from './owner-ids.js';

/** The holder that a majority of nodes names. With fewer, owners have split the nodes. */
export function holderOf(replies: readonly AcquireReply[], majority: number): string | undefined {
  const named = holdersIn(replies);
  return named.find((owner) => named.filter((other) => other === owner).length >= majority);
}

/** The key is free again as soon as enough of the refusing nodes are free for a majority. */
export function busyReply(replies: readonly AcquireReply[], majority: number): Busy {
  const refusals = replies.filter((reply) => reply.kind !== 'granted');
  const remaining = refusals.map((reply) => reply.remainingMs).toSorted((a, b) => a - b);
  const needed = majority - (replies.length - refusals.length);
  const holder = holderOf(replies, majority) ?? holdersIn(replies)[0];
  return { kind: 'busy', holder, remainingMs: remaining[needed - 1] ?? 0 };
}

export function queuedReply(replies: readonly AcquireReply[], ticket: number, majority: number): Queued {
  const { holder, remainingMs } = busyReply(replies, majority);
  const rechecks = replies.flatMap((reply) => (reply.kind === 'queued' ? [reply.recheckAfterMs] : []));
  const recheckAfterMs = Math.min(recheckAfter(remainingMs), ...rechecks);
  return { kind: 'queued', ticket, holder, remainingMs, recheckAfterMs };
}

function holdersIn(replies: readonly AcquireReply[]): string[] {
  return replies.flatMap((reply) =>
    reply.kind === 'granted' || reply.holder === undefined ? [] : [ownerOf(reply.holder)],
  );
}
