import type { LockSnapshot } from '../../../port/lock-store.js';
import { type ScriptContext, ScriptCommand } from '../scripts/script-command.js';
import { inspectScript, type ReplyOf } from '../scripts/scripts.js';
import { asRemaining } from './acquire.js';

type Reply = ReplyOf<typeof inspectScript>;

export class InspectCommand extends ScriptCommand<Reply, LockSnapshot | null> {
  readonly priority = 'acquire';
  override readonly isRepeatable = true;

  constructor(key: string, context: ScriptContext) {
    super(inspectScript, context, { key, kind: 'lock' });
  }

  protected args(): [] {
    return [];
  }

  protected onReply([mode, , remaining, token, count, ...owners]: Reply): LockSnapshot | null {
    if (owners.length === 0) return null;
    return {
      key: this.key,
      mode: mode || undefined,
      holders: owners.slice(0, count),
      remainingMs: count === 0 ? 0 : asRemaining(remaining),
      pending: owners.slice(count),
      fencingToken: token === '' ? undefined : Number(token),
    };
  }
}
