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
    { key, claim, flush }: ReleaseRequest,
    context: ScriptContext,
    private readonly argsNow: () => Arguments,
  ) {
    super(releaseScript, context, { key, kind: claim.kind });
    this.flush = flush;
  }

  protected args(): Arguments {
    return this.argsNow();
  }

  protected onReply([held, executedAt]: Reply): ExecutedRelease {
    return { wasHolder: held === 1, executedAt };
  }
}

/**
 * Makes the function that sends one copy of a release. `CertainReleases` repeats it.
 *
 * Every copy names the same tokens. A copy with another last token would let the server give one out twice.
 */
export function releaseCopies(
  request: ReleaseRequest,
  context: ScriptContext,
  owner: OwnerRequests,
): SendCopy {
  const { claim, used, holdUntil } = request;
  const { minToken, serverFields, connection } = context;
  const tokens = used ? `,"used":"${used.token}","reserved":"${used.lastToken}"` : '';
  const mayBeCommon = claim.kind === 'lock' && connection.publish === 'PUBLISH' && !used;
  const args = (): Arguments => {
    const holdMs = holdUntil === undefined ? 0 : Math.max(0, Math.ceil(holdUntil - connection.clock.now()));
    // The reply to a common release lacks the server's time, which is needed while an acquire of the owner is unanswered.
    const isCommon = mayBeCommon && holdMs === 0 && !owner.hasUnanswered;
    const hold = holdMs > 0 ? `,"hold":${holdMs}` : '';
    const digit = isCommon ? (context.sharesTokens ? 1 : 2) : 0;
    return [request.owner, minToken, `${digit}{${claimFields(claim)}${tokens}${hold},${serverFields}}`];
  };
  return (onReply, onError) => connection.start(new ReleaseCommand(request, context, args), onReply, onError);
}
