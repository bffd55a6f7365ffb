import { LockStoreError } from '../../../port/lock.errors.js';
import type { AcquireRequest, Grant } from '../../../port/lock-store.js';
import { leaseValidity } from '../../../port/lease-validity.js';
import { EXPIRED } from '../connection/redis.command.js';
import { asUnsure, callerHasLeft, isDenied } from '../connection/redis.errors.js';
import type { RedisNotifications } from '../connection/redis.notifications.js';
import { WireKeys } from '../scripts/evalsha.js';
import { ScriptCommand, type ScriptReply } from '../scripts/script-command.js';
import type { ScriptContext } from '../scripts/script-context.js';
import type { Script } from '../scripts/scripts.js';
import type { OwnerState, OwnerStates } from '../../common/owner-states.js';

export interface AcquireContext {
  readonly scripts: ScriptContext;
  readonly notifications: RedisNotifications;
  readonly owners: OwnerStates;
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
  private readonly owners: readonly OwnerState[];
  /** Written, and not answered yet. */
  private isOpen = false;

  constructor(
    script: Script<R>,
    protected readonly store: AcquireContext,
    protected readonly requests: readonly AcquireRequest[],
    keys: WireKeys,
  ) {
    const [{ key, claim }] = requests as readonly [AcquireRequest];
    const { scripts, guard } = store;
    super(
      script,
      scripts,
      { key, kind: claim.kind },
      guard ? new WireKeys([...keys.names, guard.mark]) : keys,
    );
    this.owners = requests.map(({ owner }) => store.owners.begin(owner));
  }

  /** @param reply of a server that is ready, to a request that was not refused as expired */
  protected abstract resultOf(reply: R): Result;

  /**
   * The command is about to be written.
   *
   * @returns the not-after
   * @throws LockStoreError if it must not be written now: an owner must not acquire after its release
   */
  protected onWrite(): number {
    this.isOpen = false;
    if (this.owners.some(({ isReleasing }) => isReleasing)) throw callerHasLeft(this.key);
    const notAfter = this.context.notAfter(this.sent);
    this.owners.forEach((owner, i) => owner.onAcquireSent(notAfter, this.requests[i]?.leaseMs));
    this.isOpen = true;
    return notAfter;
  }

  protected onReply(reply: R): Result | typeof EXPIRED {
    this.onAnswered();
    if (reply[0] === 0) return EXPIRED;
    this.mayComeLate = this.owners.some(({ hasUnanswered }) => hasUnanswered);
    if (reply[0] === 4) throw this.unready(reply[2] as number);
    this.end();
    return this.resultOf(reply);
  }

  protected override onFailed(error: LockStoreError): void {
    // A command that was refused or never written cannot be executed any more.
    if (error.reason !== 'unknown') this.onAnswered();
    // Redis undoes nothing of a script that was denied halfway: it may have written a ticket, or a lock. A refusal of the
    // second copy says nothing about the first one.
    const isDeniedHalfway = isDenied(error.cause);
    this.requests.forEach((request, i) => {
      const mayHold = isDeniedHalfway || (error.reason === 'refused' && this.owners[i]?.hasUnanswered);
      if (mayHold) this.store.undo(request);
    });
    this.end();
  }

  protected granted(request: AcquireRequest, token: number, lastToken: number, waiting = 0): Grant {
    this.store.notifications.stopListening(request.owner);
    this.context.onToken(lastToken);
    const validUntil = leaseValidity(this.sent.now, request.leaseMs);
    return { kind: 'granted', token, lastToken, validUntil, waiting, confirmed: true };
  }

  /** An earlier copy may still be executed: then the outcome is unknown. */
  private unready(leftMs: number): LockStoreError {
    const error = unready(leftMs, this.store.guard as RestartGuard, this.key);
    return this.mayComeLate ? asUnsure(error) : error;
  }

  private onAnswered(): void {
    if (this.isOpen) for (const owner of this.owners) owner.onAcquireAnswered();
    this.isOpen = false;
  }

  private end(): void {
    for (const { owner } of this.requests) this.store.owners.end(owner);
  }
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

export function unready(leftMs: number, { longestLeaseMs }: RestartGuard, key: string): LockStoreError {
  return new LockStoreError(
    `Redis is not ready: it came back without its data, and leases that it has forgotten may run for another ${leftMs} ms (restartGuardMs is ${longestLeaseMs}).`,
    key,
    'unready',
  );
}
