import type { LockSnapshot } from '../../port/lock-store.js';
import { type ReplyOf, ScriptCommand, type ScriptContext, SCRIPTS } from '../scripts/script-command.js';

type Reply = ReplyOf<typeof SCRIPTS.inspect>;

export class InspectCommand extends ScriptCommand<Reply, LockSnapshot | null> {
  protected readonly script = SCRIPTS.inspect;
  readonly priority = 'acquire';
  override readonly isRepeatable = true;

  constructor(key: string, context: ScriptContext) {
    super(context, { key, kind: 'lock' });
  }

  protected args(): [] {
    return [];
  }

  protected onReply([mode, , pttl, token, count, ...owners]: Reply): LockSnapshot | null {
    if (owners.length === 0) return null;
    return {
      key: this.key,
      mode: mode || undefined,
      holders: owners.slice(0, count),
      remainingMs: count === 0 ? 0 : pttl < 0 ? Infinity : pttl,
      pending: owners.slice(count),
      fencingToken: token === '' ? undefined : Number(token),
    };
  }
}
