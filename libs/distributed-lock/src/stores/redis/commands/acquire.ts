import type { AcquireReply, AcquireRequest } from '../../../port/lock-store.js';
import { SILENT_WAITER_MS, RECHECK_MS, recheckAfter } from '../../../port/recheck-interval.js';
import { isOurs, redissonChannel } from '../redisson/redisson-names.js';
import type { Arguments } from '../scripts/evalsha.js';
import { claimFields } from '../scripts/script-context.js';
import { acquireScript, type ReplyOf } from '../scripts/scripts.js';
import { AcquiringCommand, type AcquireContext } from './acquiring.js';

/** How often a waiter rechecks while it is not subscribed. */
export const UNSUBSCRIBED_RECHECK_MS = 250;
/** The initial lease of a grant by notification is at least this: a receiver that is gone blocks the queue that long. */
export const LEAST_INITIAL_LEASE_MS = 1000;
/** Tokens are kept for a day, and twice as long as the lease. */
const LONGEST_PLAIN_MS = 43_200_000;

type Reply = ReplyOf<typeof acquireScript>;

export class AcquireCommand extends AcquiringCommand<Reply, AcquireReply> {
  /** @throws LockKeyError for a key that a cluster cannot take */
  constructor(
    private readonly request: AcquireRequest,
    store: AcquireContext,
  ) {
    // No literal, which V8 would allocate in its old generation: docs/decisions/0012.
    const requests = Array.of(request);
    super(acquireScript, store, requests, store.scripts.keysOf(request.key, request.claim.kind));
  }

  protected args(): Arguments {
    const { owner, claim, leaseMs, waitMs, ticket, tokens, minLastToken = 0 } = this.request;
    const { context } = this;
    const { notifications, guard } = this.store;
    const notAfter = this.onWrite();
    const wait = Math.min(Math.ceil(waitMs), SILENT_WAITER_MS);
    const initialLease = Math.min(
      leaseMs,
      Math.max(LEAST_INITIAL_LEASE_MS, 4 * Math.ceil(context.roundTripMs)),
    );
    const options =
      `{${claimFields(claim)},"tokens":${tokens},"wait":${wait},"ticket":"${ticket}","initial_lease":${initialLease},` +
      `"subscribed":${notifications.isSubscribed},"nonce":"${notifications.nonce}","min_last_token":"${minLastToken}",` +
      `${context.serverFields}}`;
    const isPlain =
      claim.kind === 'lock' && tokens === 1 && leaseMs <= LONGEST_PLAIN_MS && !context.sharesTokens;
    const args = [owner, leaseMs, notAfter, context.minToken, `${isPlain ? 1 : 0}${options}`];
    return guard ? [...args, guard.longestLeaseMs] : args;
  }

  protected resultOf(reply: Reply): AcquireReply {
    const result = this.meaningOf(reply);
    return this.mayComeLate ? { ...result, mayComeLate: true } : result;
  }

  private meaningOf([kind, , holderOrToken, number = 0, last = 0]: Reply): AcquireReply {
    if (kind === 1) return this.granted(this.request, holderOrToken as number, number, last);
    const holder = (holderOrToken as string) || undefined;
    const remainingMs = asRemaining(number);
    return kind === 3 ? { kind: 'busy', holder, remainingMs } : this.queued(holder, remainingMs, last);
  }

  private queued(holder: string | undefined, remainingMs: number, ticket: number): AcquireReply {
    const { notifications, owners } = this.store;
    const { owner } = this.request;
    const isBehindForeignClient = holder !== undefined && !isOurs(holder);
    // If its caller has left meanwhile, no later request would end the subscription.
    if (owners.isReleasing(owner) || !isBehindForeignClient) notifications.stopListening(owner);
    else {
      const channel = redissonChannel(this.context.lockName(this.key), this.kind);
      notifications.listenBehindForeignClient(channel, owner);
    }
    notifications.probe();
    const recheckMs = notifications.isSubscribed ? RECHECK_MS : UNSUBSCRIBED_RECHECK_MS;
    return {
      kind: 'queued',
      ticket,
      holder,
      remainingMs,
      recheckAfterMs: recheckAfter(remainingMs, recheckMs),
    };
  }
}

/** From the reply of `PTTL`. */
export function asRemaining(pttl: number): number {
  return pttl < 0 ? Infinity : pttl;
}
