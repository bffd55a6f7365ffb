import { LockStoreError } from '../../../port/lock.errors.js';
import type { AcquireReply, AcquireRequest, Grant, Queued } from '../../../port/lock-store.js';
import { leaseValidity } from '../../../port/lease-validity.js';
import { SILENT_WAITER_MS, RECHECK_MS, recheckAfter } from '../../../port/recheck-interval.js';
import type { OwnerRequests, RequestsByOwner } from '../../common/owner-requests.js';
import { TOO_LATE } from '../connection/redis.command.js';
import { asUnsure, callerHasLeft, isDenied } from '../connection/redis.errors.js';
import type { RedisNotifications } from '../connection/redis.notifications.js';
import { isOurs, redissonChannel } from '../redis.keys.js';
import { WireKeys, type Arguments } from '../redis.client.js';
import {
  ScriptCommand,
  type ScriptReply,
  claimFields,
  type ScriptContext,
} from '../scripts/script-command.js';
import { acquireScript, type ReplyOf, type Script } from '../scripts/scripts.js';

/** How often a waiter rechecks while it is not subscribed. */
export const UNSUBSCRIBED_RECHECK_MS = 250;
/**
 * The least initial lease of a grant by notification, unless the lease is shorter. A waiter that has crashed blocks the queue
 * for that long.
 */
export const LEAST_INITIAL_LEASE_MS = 1000;
/** The longest lease of a common acquire request. Its tokens are kept for a day, which must be twice the lease at least. */
const LONGEST_PLAIN_MS = 43_200_000;

export interface AcquireContext {
  readonly scripts: ScriptContext;
  readonly notifications: RedisNotifications;
  readonly owners: RequestsByOwner;
  readonly guard: RestartGuard | undefined;
  /** Releases in the background what may have been acquired. */
  readonly undo: (request: AcquireRequest) => void;
}

/** Base class of the commands that acquire one lock or several. */
export abstract class AcquiringCommand<R extends ScriptReply, Result> extends ScriptCommand<R, Result> {
  readonly priority = 'acquire';
  override readonly flush = 'when idle';
  override readonly isRepeatable = true;
  /** An earlier copy that was never answered may be executed after the one that was. */
  protected mayComeLate = false;
  /** The latest copy is written, and not answered yet. */
  private isOpen = false;

  /** @param first the first request that it sends */
  constructor(
    script: Script<R>,
    protected readonly store: AcquireContext,
    { key, claim }: AcquireRequest,
    keys: WireKeys,
  ) {
    const { scripts, guard } = store;
    const all = guard ? new WireKeys([...keys.names, guard.mark]) : keys;
    super(script, scripts, key, claim.kind, all);
  }

  /** Calls `act` with each request that it sends, and with what else the owner of it has under way. */
  protected abstract forEach(act: (request: AcquireRequest, owner: OwnerRequests) => void): void;

  /** @param reply of a server that is ready, to a request that did not come too late */
  protected abstract resultOf(reply: R): Result;

  /**
   * The command is about to be written.
   *
   * @returns the not-after
   * @throws LockStoreError if it must not be written now: an owner must not acquire after its release
   */
  protected onWrite(): number {
    this.isOpen = false;
    this.forEach((_, { isReleasing }) => {
      if (isReleasing) throw callerHasLeft(this.key);
    });
    const notAfter = this.context.notAfter(this.sent);
    this.forEach(({ leaseMs }, owner) => owner.onAcquireSent(notAfter, leaseMs));
    this.isOpen = true;
    return notAfter;
  }

  protected onReply(reply: R): Result | typeof TOO_LATE {
    this.onAnswered();
    if (reply[0] === 0) return TOO_LATE;
    this.mayComeLate = false;
    this.forEach((_, { hasUnanswered }) => (this.mayComeLate ||= hasUnanswered));
    if (reply[0] === 4) throw this.unready(reply[2] as number);
    this.finish();
    return this.resultOf(reply);
  }

  protected override onFailed(error: LockStoreError): void {
    // A command that was refused or never written cannot be executed any more.
    if (error.reason !== 'unknown') this.onAnswered();
    // Redis undoes nothing of a script that was denied halfway: it may have written a ticket, or a lock. A refusal of the
    // second copy says nothing about the first one.
    const isDeniedHalfway = isDenied(error.cause);
    this.forEach((request, { hasUnanswered }) => {
      const mayHold = isDeniedHalfway || (error.reason === 'refused' && hasUnanswered);
      if (mayHold) this.store.undo(request);
    });
    this.finish();
  }

  protected granted(request: AcquireRequest, token: number, lastToken: number, waiting = 0): Grant {
    this.store.notifications.stopListeningToForeignClients(request.owner);
    this.context.onToken(lastToken);
    const validUntil = leaseValidity(this.sent.now, request.leaseMs);
    return { kind: 'granted', token, lastToken, validUntil, waiting, confirmed: true };
  }

  /** An earlier copy may still be executed: then the outcome is unknown. */
  private unready(leftMs: number): LockStoreError {
    const { longestLeaseMs } = this.store.guard as RestartGuard;
    const message = `Redis is not ready: it came back without its data, and leases that it has forgotten may run for another ${leftMs} ms (restartGuardMs is ${longestLeaseMs}).`;
    const error = new LockStoreError(message, this.key, 'unready');
    return this.mayComeLate ? asUnsure(error) : error;
  }

  private onAnswered(): void {
    if (this.isOpen) this.forEach((_, owner) => owner.onAcquireAnswered());
    this.isOpen = false;
  }

  private finish(): void {
    this.forEach(({ owner }) => this.store.owners.endRequest(owner));
  }
}

type Reply = ReplyOf<typeof acquireScript>;
type WaitingReply = Extract<Reply, readonly [2 | 3, ...unknown[]]>;

export class AcquireCommand extends AcquiringCommand<Reply, AcquireReply> {
  private readonly owner: OwnerRequests;

  /** @throws LockKeyError for a key that a cluster cannot take */
  constructor(
    private readonly request: AcquireRequest,
    store: AcquireContext,
  ) {
    super(acquireScript, store, request, store.scripts.keysOf(request.key, request.claim.kind));
    this.owner = store.owners.beginRequest(request.owner);
  }

  protected forEach(act: (request: AcquireRequest, owner: OwnerRequests) => void): void {
    act(this.request, this.owner);
  }

  protected args(): Arguments {
    const { owner, claim, leaseMs, waitMs, ticket, tokens, minLastToken = 0, maxWaiting } = this.request;
    const { context } = this;
    const { notifications, guard } = this.store;
    const notAfter = this.onWrite();
    const wait = Math.min(Math.ceil(waitMs), SILENT_WAITER_MS);
    const initialLease = Math.min(
      leaseMs,
      Math.max(LEAST_INITIAL_LEASE_MS, 4 * Math.ceil(context.connection.serverClock.roundTripMs)),
    );
    const counted =
      maxWaiting === undefined ? '' : `"max_waiting":${Math.min(maxWaiting, Number.MAX_SAFE_INTEGER)},`;
    const options =
      `{${claimFields(claim)},"tokens":${tokens},"wait":${wait},"ticket":"${ticket}","initial_lease":${initialLease},` +
      `"subscribed":${notifications.isSubscribed},"nonce":"${notifications.nonce}","min_last_token":"${minLastToken}",` +
      `${counted}${context.serverFields}}`;
    const isCommon =
      claim.kind === 'lock' && tokens === 1 && leaseMs <= LONGEST_PLAIN_MS && !context.sharesTokens;
    const args = [owner, leaseMs, notAfter, context.minToken, `${isCommon ? 1 : 0}${options}`];
    return guard ? [...args, guard.longestLeaseMs] : args;
  }

  protected resultOf(reply: Reply): AcquireReply {
    const result = this.meaningOf(reply);
    return this.mayComeLate ? { ...result, mayComeLate: true } : result;
  }

  private meaningOf(reply: Reply): AcquireReply {
    if (reply[0] === 1) {
      const [, , token, lastToken, waiting] = reply;
      return this.granted(this.request, token, lastToken, waiting);
    }
    const [kind, , holder, remaining, ticket = 0, others] = reply as WaitingReply;
    const remainingMs = asRemaining(remaining);
    const counted = others === undefined ? undefined : { waiting: others };
    if (kind === 3) return { kind: 'busy', holder: holder || undefined, remainingMs, ...counted };
    return { ...this.queued(holder || undefined, remainingMs, ticket), ...counted };
  }

  private queued(holder: string | undefined, remainingMs: number, ticket: number): Queued {
    const { notifications, owners } = this.store;
    const { owner } = this.request;
    const isBehindForeignClient = holder !== undefined && !isOurs(holder);
    // The caller may have left meanwhile. Then no later request would end the subscription.
    if (owners.isReleasing(owner) || !isBehindForeignClient)
      notifications.stopListeningToForeignClients(owner);
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

/** Turns a reply of `PTTL` into a remaining lease in ms. */
export function asRemaining(pttl: number): number {
  return pttl < 0 ? Infinity : pttl;
}

/**
 * Grants nothing on a server that has lost its data until every lease that it has forgotten is over: the "delayed restart" of
 * Redlock's description (redis.io, Distributed locks), without an operator. The acquire scripts check a mark.
 */
interface RestartGuard {
  /** The key of the mark. A server that has lost its data has lost the mark, too. */
  readonly mark: string;
  readonly longestLeaseMs: number;
}
