import { isExclusive } from '../../../port/claim.js';
import type { AcquireReply, AcquireRequest, Repeated, Grant, InTheWay } from '../../../port/lock-store.js';
import { WireKeys } from '../scripts/evalsha.js';
import { AcquireCall, PendingAcquire, granted, type AcquireContext } from './acquire.js';
import { EXPIRED } from '../connection/redis.command.js';
import { shareSlot } from '../redis.keys.js';
import type { RestartGuard } from '../safety/restart-guard.js';
import { acquireAllScript, acquireScript } from '../scripts/scripts.js';

/** Asks for locks, one or several at once. */
export class Acquires {
  constructor(private readonly context: AcquireContext) {}

  acquire(ask: AcquireRequest): Promise<AcquireReply> {
    const { guard } = this.context;
    try {
      return guard ? this.pass(guard, [ask], () => this.acquireNow(ask)) : this.acquireNow(ask);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /** @returns `null` when no script may take them all */
  async acquireAll(
    asks: readonly AcquireRequest[],
  ): Promise<readonly (Grant & Repeated)[] | InTheWay | null> {
    const { guard, commands, session } = this.context;
    const names = asks.map(({ key }) => commands.lockName(key));
    if (!asks.every(({ claim }) => isExclusive(claim)) || (session.isCluster && !shareSlot(names)))
      return null;
    const acquire = () => this.acquireAllNow(asks);
    return guard ? this.pass(guard, asks, acquire) : acquire();
  }

  private async pass<T>(
    guard: RestartGuard,
    asks: readonly AcquireRequest[],
    acquire: () => Promise<T>,
  ): Promise<T> {
    const { ends } = this.context;
    for (const { owner } of asks) ends.onAcquireStarted(owner);
    try {
      return await guard.pass((asks[0] as AcquireRequest).key, acquire);
    } finally {
      for (const { owner } of asks) ends.onAcquireEnded(owner);
    }
  }

  private acquireNow(ask: AcquireRequest): Promise<AcquireReply> {
    return this.context.commands.run(acquireScript, new AcquireCall(ask, this.context));
  }

  private acquireAllNow(asks: readonly AcquireRequest[]): Promise<readonly (Grant & Repeated)[] | InTheWay> {
    const { commands, session } = this.context;
    const { key } = asks[0] as AcquireRequest;
    const keys = new WireKeys(asks.flatMap((ask) => commands.namesOf(ask.key, 'lock')));
    const one = ({ owner, leaseMs, tokens, claim }: AcquireRequest) => [owner, leaseMs, tokens, claim.kind];
    const pending = asks.map((ask) => new PendingAcquire(ask, this.context));
    return commands.run(acquireAllScript, {
      urgency: 'acquire',
      isAwaited: true,
      isRepeatable: true,
      key,
      kind: 'lock',
      keys,
      args: () => {
        const notAfter = session.notAfter();
        for (const each of pending) each.onWrite(notAfter);
        return [notAfter, session.minToken, ...asks.flatMap(one)];
      },
      read: (reply, sentAt) => {
        for (const each of pending) each.onAnswer();
        if (reply[0] === 0) return EXPIRED;
        const mayComeLate = pending.some((each) => each.mayComeLate);
        for (const each of pending) each.onDone();
        if (reply[0] === 2) {
          if (mayComeLate) asks.forEach(this.context.undo);
          return { key: (asks[reply[2] - 1] as AcquireRequest).key };
        }
        const [, , ...tokens] = reply;
        const token = (i: number) => tokens[i] as number;
        return asks.map((ask, i) => {
          const grant = granted(ask, this.context, sentAt, token(2 * i), token(2 * i + 1));
          return mayComeLate ? { ...grant, mayComeLate } : grant;
        });
      },
      onFailed: (error) => {
        for (const each of pending) each.onFailed(error);
      },
    });
  }
}
