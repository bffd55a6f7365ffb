import type { AcquireReply, AcquireRequest } from '../../port/lock-store.js';
import { LockStoreError } from '../../port/lock.errors.js';
import { type Arguments, WireKeys } from '../client.js';
import type { TOO_LATE } from '../command.js';
import { asUnsureError } from '../errors.js';
import type { AcquireScriptReply } from '../scripts/script-command.js';
import { AcquireCommand, type AcquireContext } from './acquire.js';

/**
 * Settings of the restart guard: a server that has lost its data grants nothing until every lease that it has forgotten has expired. This
 * is the "delayed restart" of Redlock's description (redis.io, Distributed locks), without an operator. The acquire script notices the
 * loss when a key that it writes once, the mark, is missing.
 */
export interface RestartGuard {
  /** The name of the mark, a key that never expires. If it is missing, the server has lost its data. */
  readonly mark: string;
  readonly longestLeaseMs: number;
}

/** An acquire on a server with the restart guard (`restartGuardMs`). */
export class GuardedAcquireCommand extends AcquireCommand {
  /** @throws LockKeyError for a key that a cluster cannot take */
  constructor(
    request: AcquireRequest,
    parts: AcquireContext,
    private readonly guard: RestartGuard,
  ) {
    const { names } = parts.scripts.keysOf(request.key, request.claim.kind);
    super(request, parts, new WireKeys([...names, guard.mark]));
  }

  protected override args(): Arguments {
    return [...super.args(), this.guard.longestLeaseMs];
  }

  protected override onReply(reply: AcquireScriptReply): AcquireReply | typeof TOO_LATE {
    if (reply[0] !== 4) return super.onReply(reply);
    this.onAnswered();
    throw this.unreadyError(reply[2]);
  }

  /** The reason is `unknown` if an earlier copy may still be executed. */
  private unreadyError(leftMs: number): LockStoreError {
    const { longestLeaseMs } = this.guard;
    const message = `Redis is not ready: it came back without its data, and leases that it has forgotten may run for another ${leftMs} ms (restartGuardMs is ${longestLeaseMs}).`;
    const error = new LockStoreError(message, this.key, 'unready');
    return this.ownerRequests.hasUnanswered ? asUnsureError(error) : error;
  }
}
