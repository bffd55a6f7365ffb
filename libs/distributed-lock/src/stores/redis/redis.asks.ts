import { isAlone } from '../../lock/claim.js';
import type { LockStoreError } from '../../lock/lock.errors.js';
import type { AcquireReply, Ask, Grant } from '../../lock/lock-store.js';
import { GONE_MS, LOOK_MS, lookAfter } from '../../lock/look.js';
import { leaseValidity } from '../../lock/validity.js';
import type { Arguments, RedisCommands } from './redis.commands.js';
import type { RedisEnds } from './redis.ends.js';
import { LATE } from './redis.command.js';
import { shareSlot, strangersChannel } from './redis.keys.js';
import { isOurs } from './redis.owners.js';
import type { RedisPushes } from './redis.pushes.js';
import type { RestartGuard } from './redis.restart-guard.js';
import { isDenied } from './redis.rights.js';
import { acquireAllScript, acquireScript, type ReplyOf } from './redis.scripts.js';
import { permitsOf, weightOf, type RedisSession } from './redis.session.js';

/** How often a waiter looks while no grant can be pushed to it. */
const DEAF_LOOK_MS = 250;
/** The first lease of a pushed grant is at least this: a receiver that is dead blocks the line that long. */
const SHORT_LEASE_MS = 1000;

/** Not too late. */
type Answer = Exclude<ReplyOf<typeof acquireScript>, readonly [0, number]>;

/** Asks for locks: what goes with the question, and what the answer means. */
export class RedisAsks {
  constructor(
    private readonly commands: RedisCommands,
    private readonly session: RedisSession,
    private readonly pushes: RedisPushes,
    private readonly ends: RedisEnds,
    private readonly guard: RestartGuard | undefined,
    private readonly undo: (ask: Ask) => void,
  ) {}

  acquire(ask: Ask): Promise<AcquireReply> {
    try {
      return this.guard ? this.pass(this.guard, [ask], () => this.acquireNow(ask)) : this.acquireNow(ask);
    } catch (error) {
      // A key that a cluster cannot take.
      return Promise.reject(error as Error);
    }
  }

  /** @returns `null` when one of them is in use, or no script may take them all */
  async acquireAll(asks: readonly Ask[]): Promise<readonly Grant[] | null> {
    const names = asks.map(({ key }) => this.commands.lockName(key));
    if (!asks.every(({ claim }) => isAlone(claim)) || (this.session.isCluster && !shareSlot(names)))
      return null;
    const acquire = () => this.acquireAllNow(asks);
    return this.guard ? this.pass(this.guard, asks, acquire) : acquire();
  }

  private async pass<T>(guard: RestartGuard, asks: readonly Ask[], acquire: () => Promise<T>): Promise<T> {
    for (const { owner } of asks) this.ends.onAsking(owner);
    try {
      return await guard.pass((asks[0] as Ask).key, acquire);
    } finally {
      for (const { owner } of asks) this.ends.onAsked(owner);
    }
  }

  private acquireNow(ask: Ask): Promise<AcquireReply> {
    const { key, owner, claim, waitMs } = ask;
    const keys = this.commands.keysOf(key, claim.kind);
    let onAnswer = (): void => undefined;
    this.ends.onAsking(owner);
    return this.commands.run(acquireScript, {
      urgency: 'ask',
      key,
      kind: claim.kind,
      keys,
      args: () => {
        this.guard?.check(key);
        const notAfter = this.session.notAfter(waitMs > 0 ? waitMs : Infinity);
        onAnswer = this.ends.onAsk(owner, key, notAfter);
        return this.acquireArguments(ask, notAfter);
      },
      read: (reply, sentAt) => {
        onAnswer();
        if (reply[0] === 0) return LATE;
        this.ends.onAsked(owner);
        return this.meaning(ask, reply, sentAt);
      },
      onFailed: (error) => this.onFailed(error, [ask], [onAnswer]),
    });
  }

  private acquireAllNow(asks: readonly Ask[]): Promise<readonly Grant[] | null> {
    const { key } = asks[0] as Ask;
    const keys = asks.flatMap((ask) => this.commands.keysOf(ask.key, 'lock'));
    const one = ({ owner, leaseMs, tokens, claim }: Ask) => [owner, leaseMs, tokens, claim.kind];
    let onAnswers: (() => void)[] = [];
    for (const { owner } of asks) this.ends.onAsking(owner);
    return this.commands.run(acquireAllScript, {
      urgency: 'ask',
      key,
      kind: 'lock',
      keys,
      args: () => {
        this.guard?.check(key);
        const notAfter = this.session.notAfter();
        onAnswers = [];
        for (const ask of asks) onAnswers.push(this.ends.onAsk(ask.owner, ask.key, notAfter));
        return [notAfter, this.session.floor, ...asks.flatMap(one)];
      },
      read: (reply, sentAt) => {
        for (const onAnswer of onAnswers) onAnswer();
        if (reply[0] === 0) return LATE;
        for (const { owner } of asks) this.ends.onAsked(owner);
        if (reply[0] === 2) return null;
        const [, , ...tokens] = reply;
        return asks.map((ask, i) => this.granted(ask, sentAt, tokens[2 * i], tokens[2 * i + 1]));
      },
      onFailed: (error) => this.onFailed(error, asks, onAnswers),
    });
  }

  private onFailed(error: LockStoreError, asks: readonly Ask[], onAnswers: readonly (() => void)[]): void {
    // It was refused, or never written: nothing of it can be executed any more.
    if (error.reason !== 'unknown') for (const onAnswer of onAnswers) onAnswer();
    // Redis undoes nothing of a script that was denied halfway: it may have written a place in the line, or a lock.
    if (isDenied(error.cause)) for (const ask of asks) this.undo(ask);
    for (const { owner } of asks) this.ends.onAsked(owner);
  }

  private acquireArguments(ask: Ask, notAfter: number): Arguments {
    const { owner, claim, leaseMs, waitMs, place, tokens, reserveTo = 0 } = ask;
    const short = Math.min(leaseMs, Math.max(SHORT_LEASE_MS, 4 * Math.ceil(this.session.roundTripMs)));
    const hears = this.pushes.isUp ? 1 : 0;
    const wait = Math.min(Math.ceil(waitMs), GONE_MS);
    const { floor, cluster, publish } = this.session;
    const line = `${wait} ${place} ${hears} ${cluster} ${publish} ${short}`;
    const more = `${line} ${weightOf(claim)} ${permitsOf(claim)} ${this.pushes.word} ${reserveTo}`;
    return [owner, claim.kind, tokens, leaseMs, notAfter, floor, more];
  }

  private meaning(ask: Ask, reply: Answer, sentAt: number): AcquireReply {
    switch (reply[0]) {
      case 1:
        return this.granted(ask, sentAt, reply[2], reply[3], reply[4]);
      case 2:
        return this.queued(ask, reply[2], reply[3], reply[4]);
      case 3:
        return { kind: 'busy', holder: reply[2] || undefined, remainingMs: asRemaining(reply[3]) };
    }
  }

  private granted({ owner, leaseMs }: Ask, sentAt: number, token = 0, lastToken = token, waiting = 0) {
    this.pushes.stopListening(owner);
    this.session.onToken(lastToken);
    const validUntil = leaseValidity(sentAt, leaseMs);
    return { kind: 'granted', token, lastToken, validUntil, waiting, confirmed: true } as const;
  }

  private queued(
    { key, owner, claim: { kind } }: Ask,
    holder: string,
    remaining: number,
    place: number,
  ): AcquireReply {
    const isBehindStranger = holder !== '' && !isOurs(holder);
    // If its caller has left meanwhile, nothing would ever undo what is noted for it now.
    if (this.ends.isEnding(owner) || !isBehindStranger) this.pushes.stopListening(owner);
    else this.pushes.listenBehindStranger(strangersChannel(this.commands.lockName(key), kind), owner);
    this.pushes.probe();
    const remainingMs = asRemaining(remaining);
    const lookAfterMs = lookAfter(remainingMs, this.pushes.isUp ? LOOK_MS : DEAF_LOOK_MS);
    return { kind: 'queued', place, holder: holder || undefined, remainingMs, lookAfterMs };
  }
}

/** From what `PTTL` says. */
export function asRemaining(pttl: number): number {
  return pttl < 0 ? Infinity : pttl;
}
