import type { OwnerRequests } from '../../connection/owner-requests.js';
import type { AcquireReply, AcquireRequest, AttachRequest, Grant, Queued } from '../../port/lock-store.js';
import { LockStoreError } from '../../port/lock.errors.js';
import { leaseValidity, RECHECK_MS, recheckAfter, SILENT_WAITER_MS } from '../../port/timing.js';
import type { Arguments, WireKeys } from '../client.js';
import { TOO_LATE } from '../command.js';
import { isDenied } from '../errors.js';
import { isOurs } from '../keys.js';
import type { RedisNotifications } from '../notifications.js';
import {
  type AcquireScriptReply,
  claimFields,
  flags,
  ScriptCommand,
  type ScriptContext,
  SCRIPTS,
} from '../scripts/script-command.js';

/** How often a waiter rechecks while it is not subscribed. */
export const UNSUBSCRIBED_RECHECK_MS = 250;
/**
 * The shortest initial lease of a grant by notification, unless the whole lease is shorter. If the waiter has crashed, its grant
 * blocks the queue for this long.
 */
export const MIN_INITIAL_LEASE_MS = 1000;
/**
 * The longest lease for which the acquire script may take its short path. That path keeps the token counter for a day, and the
 * counter must be kept for at least twice the lease.
 */
const MAX_PLAIN_MS = 43_200_000;

export interface AcquireContext {
  readonly scripts: ScriptContext;
  readonly notifications: RedisNotifications;
  /** Releases in the background a lock that the request may have acquired. */
  readonly releaseInBackground: (request: AcquireRequest) => void;
}

type WaitingReply = Extract<AcquireScriptReply, readonly [2 | 3, ...unknown[]]>;

export class AcquireCommand extends ScriptCommand<AcquireScriptReply, AcquireReply> {
  protected readonly script: typeof SCRIPTS.acquire = SCRIPTS.acquire;
  readonly priority = 'acquire';
  override readonly flush = 'when idle';
  override readonly isRepeatable = true;
  /** The requests of this owner that got no reply. The server may execute them after the copy that is answered. */
  protected readonly ownerRequests: OwnerRequests;
  /** The latest copy was sent and has no reply yet. */
  private isOpen = false;

  /** @throws LockKeyError for a key that a cluster cannot take */
  constructor(
    private readonly request: AcquireRequest,
    private readonly parts: AcquireContext,
    keys?: WireKeys,
  ) {
    const { scripts } = parts;
    const { key, owner, claim } = request;
    super(scripts, { key, kind: claim.kind, ...(keys && { keys }) });
    this.ownerRequests = scripts.requestsByOwner.beginRequest(owner);
  }

  protected args(): Arguments {
    const notAfter = this.recordCopy();
    const { owner, claim, leaseMs, mayWait, ticket, tokens, maxWaiting } = this.request;
    const { context } = this;
    const { notifications } = this.parts;
    const wait = mayWait ? SILENT_WAITER_MS : 0;
    const initialLease = Math.min(
      leaseMs,
      Math.max(MIN_INITIAL_LEASE_MS, 4 * Math.ceil(context.connection.roundTripMs)),
    );
    const counted =
      maxWaiting === undefined ? '' : `"max_waiting":${Math.min(maxWaiting, Number.MAX_SAFE_INTEGER)},`;
    const options =
      `{${claimFields(claim)},"tokens":${tokens},"wait":${wait},"ticket":"${ticket}","initial_lease":${initialLease},` +
      `"subscribed":${notifications.isSubscribed},"nonce":"${notifications.nonce}",` +
      `${counted}${context.serverFields}}`;
    const isPlain = claim.kind === 'lock' && leaseMs <= MAX_PLAIN_MS && !context.sharesTokens;
    const before = flags({ isPlain, isShort: isPlain && tokens === 1 });
    return [owner, leaseMs, notAfter, context.minToken, before + options];
  }

  /**
   * Records that a copy of this request is about to be sent.
   *
   * @returns the deadline of the copy, in server time
   * @throws LockStoreError if the owner is being released: it must not acquire after its release
   */
  protected recordCopy(): number {
    this.isOpen = false;
    if (this.ownerRequests.isReleasing)
      throw new LockStoreError('Its caller has left before the request was sent', this.key, 'refused');
    const notAfter = this.context.notAfter(this.sent);
    this.ownerRequests.onAcquireSent(notAfter, this.request.leaseMs);
    this.isOpen = true;
    return notAfter;
  }

  protected onReply(reply: AcquireScriptReply): AcquireReply | typeof TOO_LATE {
    this.onAnswered();
    if (reply[0] === 0) return TOO_LATE;
    this.finish();
    const result = this.meaningOf(reply);
    return this.ownerRequests.hasUnanswered ? { ...result, mayComeLate: true } : result;
  }

  protected override onFailed(error: LockStoreError): void {
    // A command that was refused or never written cannot be executed any more.
    if (error.reason !== 'unknown') this.onAnswered();
    // Release in two cases. Redis denied a command halfway through the script: it undoes nothing, so the script may have written a ticket
    // or a lock. Or Redis refused the second copy: the first copy may still be executed.
    const mayHold = isDenied(error.cause) || (error.reason === 'refused' && this.ownerRequests.hasUnanswered);
    if (mayHold) this.parts.releaseInBackground(this.request);
    this.finish();
  }

  protected onAnswered(): void {
    if (this.isOpen) this.ownerRequests.onAcquireAnswered();
    this.isOpen = false;
  }

  private finish(): void {
    this.context.requestsByOwner.endRequest(this.request.owner);
  }

  private meaningOf(reply: AcquireScriptReply): AcquireReply {
    if (reply[0] === 1) {
      const [, , token, lastToken, waiting] = reply;
      return this.granted(token, lastToken, waiting);
    }
    const [kind, , holder, pttl, ticket = 0, others] = reply as WaitingReply;
    const remainingMs = pttl < 0 ? Infinity : pttl;
    const counted = others === undefined ? undefined : { waiting: others };
    if (kind === 3) return { kind: 'busy', holder: holder || undefined, remainingMs, ...counted };
    return { ...this.queued(holder || undefined, remainingMs, ticket), ...counted };
  }

  private granted(token: number, lastToken: number, waiting: number): Grant {
    const { owner, leaseMs } = this.request;
    this.parts.notifications.stopListeningToForeignClients(owner);
    this.context.onGranted(token, lastToken);
    const validUntil = leaseValidity(this.sent.now, leaseMs);
    return { kind: 'granted', token, lastToken, validUntil, waiting, confirmed: true };
  }

  private queued(holder: string | undefined, remainingMs: number, ticket: number): Queued {
    const { notifications } = this.parts;
    const { owner } = this.request;
    const isBehindForeignClient = holder !== undefined && !isOurs(holder);
    // If the caller left while the request was in flight, unsubscribe, too: no later request of this owner would do it.
    if (this.ownerRequests.isReleasing || !isBehindForeignClient)
      notifications.stopListeningToForeignClients(owner);
    else {
      const [, , , , channel] = this.context.namesOf(this.key, this.kind);
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

/** Goes on with a detached lock. It needs no restart guard: a server that has lost its data refuses it. */
export class AttachCommand extends AcquireCommand {
  protected override readonly script = SCRIPTS.attach;

  /** @throws LockKeyError for a key that a cluster cannot take */
  constructor(
    private readonly attach: AttachRequest,
    parts: AcquireContext,
  ) {
    super(attach, parts);
  }

  protected override args(): Arguments {
    const notAfter = this.recordCopy();
    const { owner, from, token, leaseMs, claim } = this.attach;
    return [owner, from, token, leaseMs, notAfter, `{${claimFields(claim)},${this.context.serverFields}}`];
  }
}
