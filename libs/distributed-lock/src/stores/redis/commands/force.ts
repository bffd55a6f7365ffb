import type { Arguments } from '../redis.client.js';
import { type ScriptContext, ScriptCommand } from '../scripts/script-command.js';
import { forceScript, type ReplyOf } from '../scripts/scripts.js';

type Reply = ReplyOf<typeof forceScript>;

export class ForceCommand extends ScriptCommand<Reply, 'released' | 'not held'> {
  readonly priority = 'release';

  /** @param owner the only holder to lose the lock; `''`: all of them */
  constructor(
    key: string,
    private readonly owner: string,
    context: ScriptContext,
  ) {
    super(forceScript, context, key, 'lock');
  }

  protected args(): Arguments {
    const { minToken, isCluster, connection } = this.context;
    return [minToken, isCluster ? 1 : 0, connection.publish, this.owner];
  }

  protected onReply([wasHeld]: Reply): 'released' | 'not held' {
    return wasHeld === 1 ? 'released' : 'not held';
  }
}
