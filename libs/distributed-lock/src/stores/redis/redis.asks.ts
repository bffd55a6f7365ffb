import { isAlone } from '../../lock/claim.js';
import type { AcquireReply, Ask, Repeated, Grant, InTheWay } from '../../lock/lock-store.js';
import { WireKeys } from './evalsha.js';
import { AcquireCall, PendingAsk, granted, type AskContext } from './redis.acquire.js';
import { LATE } from './redis.command.js';
import { shareSlot } from './redis.keys.js';
import type { RestartGuard } from './redis.restart-guard.js';
import { acquireAllScript, acquireScript } from './redis.scripts.js';

/** Asks for locks, one or several at once. */
export class RedisAsks {
  constructor(private readonly context: AskContext) {}

  acquire(ask: Ask): Promise<AcquireReply> {
    const { guard } = this.context;
    try {
      return guard ? this.pass(guard, [ask], () => this.acquireNow(ask)) : this.acquireNow(ask);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /** @returns `null` when no script may take them all */
  async acquireAll(asks: readonly Ask[]): Promise<readonly (Grant & Repeated)[] | InTheWay | null> {
    const { guard, commands, session } = this.context;
    const names = asks.map(({ key }) => commands.lockName(key));
    if (!asks.every(({ claim }) => isAlone(claim)) || (session.isCluster && !shareSlot(names))) return null;
    const acquire = () => this.acquireAllNow(asks);
    return guard ? this.pass(guard, asks, acquire) : acquire();
  }

  private async pass<T>(guard: RestartGuard, asks: readonly Ask[], acquire: () => Promise<T>): Promise<T> {
    const { ends } = this.context;
    for (const { owner } of asks) ends.onAsking(owner);
    try {
      return await guard.pass((asks[0] as Ask).key, acquire);
    } finally {
      for (const { owner } of asks) ends.onAsked(owner);
    }
  }

  private acquireNow(ask: Ask): Promise<AcquireReply> {
    return this.context.commands.run(acquireScript, new AcquireCall(ask, this.context));
  }

  private acquireAllNow(asks: readonly Ask[]): Promise<readonly (Grant & Repeated)[] | InTheWay> {
    const { commands, session } = this.context;
    const { key } = asks[0] as Ask;
    const keys = new WireKeys(asks.flatMap((ask) => commands.namesOf(ask.key, 'lock')));
    const one = ({ owner, leaseMs, tokens, claim }: Ask) => [owner, leaseMs, tokens, claim.kind];
    const pending = asks.map((ask) => new PendingAsk(ask, this.context));
    return commands.run(acquireAllScript, {
      urgency: 'ask',
      isAwaited: true,
      isRepeatable: true,
      key,
      kind: 'lock',
      keys,
      args: () => {
        const notAfter = session.notAfter();
        for (const each of pending) each.onWrite(notAfter);
        return [notAfter, session.floor, ...asks.flatMap(one)];
      },
      read: (reply, sentAt) => {
        for (const each of pending) each.onAnswer();
        if (reply[0] === 0) return LATE;
        const mayComeLate = pending.some((each) => each.mayComeLate);
        for (const each of pending) each.onDone();
        if (reply[0] === 2) {
          if (mayComeLate) asks.forEach(this.context.undo);
          return { key: (asks[reply[2] - 1] as Ask).key };
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
