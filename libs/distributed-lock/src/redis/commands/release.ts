import type { OwnerRequests } from '../../connection/owner-requests.js';
import type { ExecutedRelease } from '../../connection/reliable-release.js';
import type { Force, ForceReply, ReleaseRequest } from '../../port/lock-store.js';
import type { Arguments } from '../client.js';
import {
  claimFields,
  flags,
  type ReplyOf,
  ScriptCommand,
  type ScriptContext,
  SCRIPTS,
} from '../scripts/script-command.js';

type Reply = ReplyOf<typeof SCRIPTS.release>;

/** One copy of a release. `ReliableRelease` repeats it. */
export class ReleaseCommand extends ScriptCommand<Reply, ExecutedRelease> {
  protected readonly script = SCRIPTS.release;
  readonly priority = 'release';
  override readonly flush: ReleaseRequest['flush'];

  constructor(
    private readonly request: ReleaseRequest,
    context: ScriptContext,
    private readonly ownerRequests: OwnerRequests,
  ) {
    super(context, { key: request.key, kind: request.claim.kind });
    this.flush = request.flush;
  }

  /** Every copy of a release names the same tokens. A copy with another last token would let the server give out one token twice. */
  protected args(): Arguments {
    const { owner, claim, used, holdUntil } = this.request;
    const { connection, minToken, serverFields, sharesTokens } = this.context;
    const holdMs = holdUntil === undefined ? 0 : Math.max(0, Math.ceil(holdUntil - connection.clock.now()));
    // The reply to a short release is one number and lacks the server's time. While an acquire of this owner is
    // unanswered, that time is needed, to know when the server can no longer execute it.
    const isPlainOrShared = claim.kind === 'lock' && connection.publish === 'PUBLISH' && holdMs === 0;
    const isPlain = isPlainOrShared && !sharesTokens;
    const isShort = isPlainOrShared && !this.ownerRequests.hasUnanswered && !used;
    const tokens = used ? `,"used":"${used.token}","reserved":"${used.lastToken}"` : '';
    const hold = holdMs > 0 ? `,"hold":${holdMs}` : '';
    const options = `{${claimFields(claim)}${tokens}${hold},${serverFields}}`;
    return [owner, minToken, flags({ isPlain, isShort }) + options];
  }

  protected onReply([held, executedAt]: Reply): ExecutedRelease {
    return { wasHolder: held === 1, executedAt };
  }
}

type ForceScriptReply = ReplyOf<typeof SCRIPTS.force>;

/** The script replies with the index of one of these. */
const REPLIES: readonly ForceReply[] = ['not held', 'released', 'held by another'];
/** Every owner in Redis or in a snapshot has such a name. Other names hold nothing, and the script could not parse all of them. */
const OWNER_NAME = /^[\x20-\x7e]+$/;

export class ForceCommand extends ScriptCommand<ForceScriptReply, ForceReply> {
  protected readonly script = SCRIPTS.force;
  readonly priority = 'release';

  constructor(
    key: string,
    private readonly force: Force,
    context: ScriptContext,
  ) {
    super(context, { key, kind: 'lock' });
  }

  protected args(): Arguments {
    const { minToken, isCluster, connection } = this.context;
    const { owners, by = '' } = this.force;
    const named = owners ? JSON.stringify(owners.filter((owner) => OWNER_NAME.test(owner))) : '';
    return [minToken, isCluster ? 1 : 0, connection.publish, by, named];
  }

  protected onReply([outcome]: ForceScriptReply): ForceReply {
    return REPLIES[outcome] as ForceReply;
  }
}
