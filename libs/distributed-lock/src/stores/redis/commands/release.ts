import type { ReleaseRequest } from '../../../port/lock-store.js';
import type { ExecutedRelease, SendCopy } from '../../common/certain-releases.js';
import type { OwnerRequests } from '../../common/owner-requests.js';
import type { Arguments } from '../redis.client.js';
import { ScriptCommand, claimFields, type ScriptContext } from '../scripts/script-command.js';
import { releaseScript, type ReplyOf } from '../scripts/scripts.js';

type Reply = ReplyOf<typeof releaseScript>;

class ReleaseCommand extends ScriptCommand<Reply, ExecutedRelease> {
  readonly priority = 'release';
  override readonly flush: ReleaseRequest['flush'];

  constructor(
    private readonly request: ReleaseRequest,
    context: ScriptContext,
    private readonly requests: OwnerRequests,
  ) {
    super(releaseScript, context, { key: request.key, kind: request.claim.kind });
    this.flush = request.flush;
  }

  /** Every copy names the same tokens. A copy with another last token would let the server give one out twice. */
  protected args(): Arguments {
    const { owner, claim, used, holdUntil } = this.request;
    const { connection, minToken, serverFields, sharesTokens } = this.context;
    const holdMs = holdUntil === undefined ? 0 : Math.max(0, Math.ceil(holdUntil - connection.clock.now()));
    // The reply to a common release lacks the server's time, which is needed while an acquire of the owner is unanswered.
    const isCommon =
      claim.kind === 'lock' &&
      connection.publish === 'PUBLISH' &&
      !used &&
      holdMs === 0 &&
      !this.requests.hasUnanswered;
    const tokens = used ? `,"used":"${used.token}","reserved":"${used.lastToken}"` : '';
    const hold = holdMs > 0 ? `,"hold":${holdMs}` : '';
    const digit = isCommon ? (sharesTokens ? 1 : 2) : 0;
    return [owner, minToken, `${digit}{${claimFields(claim)}${tokens}${hold},${serverFields}}`];
  }

  protected onReply([held, executedAt]: Reply): ExecutedRelease {
    return { wasHolder: held === 1, executedAt };
  }
}

/** Makes the function that sends one copy of a release. `CertainReleases` repeats it. */
export function releaseCopies(
  request: ReleaseRequest,
  context: ScriptContext,
  requests: OwnerRequests,
): SendCopy {
  return (onReply, onError) =>
    context.connection.start(new ReleaseCommand(request, context, requests), onReply, onError);
}
