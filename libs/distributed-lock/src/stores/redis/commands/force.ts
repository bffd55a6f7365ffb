import type { Force, ForceReply } from '../../../port/lock-store.js';
import type { Arguments } from '../redis.client.js';
import { type ScriptContext, ScriptCommand } from '../scripts/script-command.js';
import { forceScript, type ReplyOf } from '../scripts/scripts.js';

type Reply = ReplyOf<typeof forceScript>;

/** In the order in which the script numbers them. */
const REPLIES: readonly ForceReply[] = ['not held', 'released', 'held by another'];
/** Each name of an owner, in Redis or in a snapshot. Others hold nothing, and the script could not read all of them. */
const OWNER_NAME = /^[\x20-\x7e]+$/;

export class ForceCommand extends ScriptCommand<Reply, ForceReply> {
  readonly priority = 'release';

  constructor(
    key: string,
    private readonly force: Force,
    context: ScriptContext,
  ) {
    super(forceScript, context, { key, kind: 'lock' });
  }

  protected args(): Arguments {
    const { minToken, isCluster, connection } = this.context;
    const { owners, by = '' } = this.force;
    const named = owners ? JSON.stringify(owners.filter((owner) => OWNER_NAME.test(owner))) : '';
    return [minToken, isCluster ? 1 : 0, connection.publish, by, named];
  }

  protected onReply([outcome]: Reply): ForceReply {
    return REPLIES[outcome] as ForceReply;
  }
}
