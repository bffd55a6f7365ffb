import type { Claim } from '../../../port/claim.js';
import type { LockStoreError } from '../../../port/lock.errors.js';
import type { AcquireReply, AcquireRequest, Grant } from '../../../port/lock-store.js';
import { SILENT_WAITER_MS, RECHECK_MS, recheckAfter } from '../../../port/recheck-interval.js';
import { leaseValidity } from '../../../port/lease-validity.js';
import type { Arguments, WireKeys } from '../scripts/evalsha.js';
import { EXPIRED } from '../connection/redis.command.js';
import type { Call, ScriptRunner } from '../scripts/script-runner.js';
import type { RequestsOfOwner, Releases } from './release.js';
import { redissonChannel } from '../redis.keys.js';
import { isOurs } from '../redisson/owner-ids.js';
import type { RedisNotifications } from '../redis.notifications.js';
import type { RestartGuard } from '../safety/restart-guard.js';
import { isDenied } from '../connection/access-rights.js';
import type { acquireScript, ReplyOf } from '../scripts/scripts.js';
import { permitsOf, weightOf, type ScriptContext } from '../scripts/script-context.js';

/** How often a waiter rechecks while its client is not subscribed. */
export const UNSUBSCRIBED_RECHECK_MS = 250;
/** The initial lease is at least this long: a process that was granted and is dead blocks the queue for it. */
export const INITIAL_LEASE_MS = 1000;
/** Tokens are kept for a day, and twice as long as the lease. */
const LONGEST_PLAIN_MS = 43_200_000;

type Reply = ReplyOf<typeof acquireScript>;
/** Not too late. */
type Answer = Exclude<Reply, readonly [0, number]>;

/** What all that is asked has in common. */
export interface AcquireContext {
  readonly commands: ScriptRunner;
  readonly session: ScriptContext;
  readonly pushes: RedisNotifications;
  readonly ends: Releases;
  readonly guard: RestartGuard | undefined;
  readonly undo: (ask: AcquireRequest) => void;
}

/** One question for one lock: what goes with it, and what the answer means. */
export class AcquireCall implements Call<Reply, AcquireReply> {
  readonly urgency = 'acquire';
  readonly isAwaited = true;
  readonly isRepeatable = true;
  readonly key: string;
  readonly kind: Claim['kind'];
  readonly keys: WireKeys;
  private readonly pending: PendingAcquire;

  /** @throws LockKeyError for a key that a cluster cannot take */
  constructor(
    private readonly ask: AcquireRequest,
    private readonly context: AcquireContext,
  ) {
    this.key = ask.key;
    this.kind = ask.claim.kind;
    this.keys = context.commands.keysOf(this.key, this.kind);
    this.pending = new PendingAcquire(ask, context);
  }

  args(): Arguments {
    const { owner, claim, leaseMs, waitMs, ticket, tokens, minLastToken = 0 } = this.ask;
    const { session, pushes, commands } = this.context;
    const notAfter = session.notAfter();
    this.pending.onWrite(notAfter);
    const short = Math.min(leaseMs, Math.max(INITIAL_LEASE_MS, 4 * Math.ceil(session.roundTripMs)));
    const hears = pushes.isSubscribed ? 1 : 0;
    const wait = Math.min(Math.ceil(waitMs), SILENT_WAITER_MS);
    const { minToken: floor, cluster, publish } = session;
    const isPlain =
      claim.kind === 'lock' && tokens === 1 && leaseMs <= LONGEST_PLAIN_MS && !commands.sharesTokens;
    const what = `${isPlain ? 1 : 0} ${claim.kind} ${tokens} ${wait} ${ticket} ${hears} ${cluster} ${publish}`;
    const more = `${what} ${short} ${weightOf(claim)} ${permitsOf(claim)} ${pushes.nonce} ${minLastToken}`;
    return [owner, leaseMs, notAfter, floor, more];
  }

  read(reply: Reply, sentAt: number): AcquireReply | typeof EXPIRED {
    this.pending.onAnswer();
    if (reply[0] === 0) return EXPIRED;
    const { mayComeLate } = this.pending;
    this.pending.onDone();
    const answer = this.meaning(reply, sentAt);
    return mayComeLate ? { ...answer, mayComeLate } : answer;
  }

  onFailed(error: LockStoreError): void {
    this.pending.onFailed(error);
  }

  private meaning(reply: Answer, sentAt: number): AcquireReply {
    switch (reply[0]) {
      case 1:
        return granted(this.ask, this.context, sentAt, reply[2], reply[3], reply[4]);
      case 2:
        return this.queued(reply[2], reply[3], reply[4]);
      case 3:
        return { kind: 'busy', holder: reply[2] || undefined, remainingMs: asRemaining(reply[3]) };
    }
  }

  private queued(holder: string, remaining: number, ticket: number): AcquireReply {
    const { pushes, ends, commands } = this.context;
    const { owner } = this.ask;
    const isBehindStranger = holder !== '' && !isOurs(holder);
    // If its caller has left meanwhile, nothing would ever undo what is noted for it now.
    if (ends.isReleasing(owner) || !isBehindStranger) pushes.stopListening(owner);
    else pushes.listenBehindForeignClient(redissonChannel(commands.lockName(this.key), this.kind), owner);
    pushes.probe();
    const remainingMs = asRemaining(remaining);
    const recheckAfterMs = recheckAfter(
      remainingMs,
      pushes.isSubscribed ? RECHECK_MS : UNSUBSCRIBED_RECHECK_MS,
    );
    return { kind: 'queued', ticket, holder: holder || undefined, remainingMs, recheckAfterMs };
  }
}

/** That an owner is asked for, as far as its end must know: from when it may be written until nothing of it can be executed. */
export class PendingAcquire {
  /** Until when an earlier one that was never answered may be executed. */
  private before: number | undefined;
  private isOpen = false;
  private readonly doings: RequestsOfOwner;

  constructor(
    private readonly ask: AcquireRequest,
    private readonly context: AcquireContext,
  ) {
    this.doings = context.ends.onAcquireStarted(ask.owner);
  }

  /** A copy that was never answered may be executed after the one that was. */
  get mayComeLate(): boolean {
    return this.doings.lateUntil !== undefined;
  }

  /** @throws LockStoreError if it must not be written now */
  onWrite(notAfter: number): void {
    const { key } = this.ask;
    // Open already: then this is its second copy, and the first one was never answered.
    this.isOpen = false;
    this.context.guard?.check(key);
    this.before = this.doings.onAcquireSent(key, notAfter);
    this.isOpen = true;
  }

  onAnswer(): void {
    if (this.isOpen) this.doings.onAcquireAnswered(this.before);
    this.isOpen = false;
  }

  onDone(): void {
    this.context.ends.onAcquireEnded(this.ask.owner);
  }

  onFailed(error: LockStoreError): void {
    // It was refused, or never written: nothing of it can be executed any more.
    if (error.reason !== 'unknown') this.onAnswer();
    // Redis undoes nothing of a script that was denied halfway: it may have written a ticket in the line, or a lock.
    // A refusal of the second copy says nothing about the first one.
    const mayHold = isDenied(error.cause) || (error.reason === 'refused' && this.mayComeLate);
    if (mayHold) this.context.undo(this.ask);
    this.onDone();
  }
}

export function granted(
  { owner, leaseMs }: AcquireRequest,
  { pushes, session }: AcquireContext,
  sentAt: number,
  token: number,
  lastToken: number,
  waiting = 0,
): Grant {
  pushes.stopListening(owner);
  session.onToken(lastToken);
  const validUntil = leaseValidity(sentAt, leaseMs);
  return { kind: 'granted', token, lastToken, validUntil, waiting, confirmed: true };
}

/** From what `PTTL` says. */
export function asRemaining(pttl: number): number {
  return pttl < 0 ? Infinity : pttl;
}
