import { isAlone } from '../../lock/claim.js';
import type { LockStoreError } from '../../lock/lock.errors.js';
import type { AcquireReply, Ask, Grant } from '../../lock/lock-store.js';
import { GONE_MS, LOOK_MS, lookAfter } from '../../lock/look.js';
import { leaseValidity } from '../../lock/validity.js';
import type { Arguments, RedisCommands } from './redis.commands.js';
import type { RedisEnds } from './redis.ends.js';
import { unknown } from './redis.errors.js';
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

  async acquire(ask: Ask): Promise<AcquireReply> {
    this.ends.onAsking(ask.owner);
    try {
      // Found too late: our idea of the server's time was old. The refusal has told it anew.
      return (await this.acquireOnce(ask)) ?? (await this.acquireOnce(ask)) ?? alwaysLate(ask.key);
    } finally {
      this.ends.onAsked(ask.owner);
    }
  }

  /** @returns `null` when one of them is in use, or no script may take them all */
  async acquireAll(asks: readonly Ask[]): Promise<readonly Grant[] | null> {
    const names = asks.map(({ key }) => this.commands.lockName(key));
    if (!asks.every(({ claim }) => isAlone(claim)) || (this.session.isCluster && !shareSlot(names)))
      return null;
    for (const { owner } of asks) this.ends.onAsking(owner);
    try {
      const once = await this.acquireAllOnce(asks);
      return once === undefined ? ((await this.acquireAllOnce(asks)) ?? null) : once;
    } finally {
      for (const { owner } of asks) this.ends.onAsked(owner);
    }
  }

  /** @returns `undefined` when the server found it too late */
  private acquireOnce(ask: Ask): Promise<AcquireReply | undefined> {
    const { key, owner, claim, waitMs } = ask;
    let onAnswer = (): void => undefined;
    return this.pass(key, () =>
      this.commands.run(acquireScript, {
        urgency: 'ask',
        key,
        kind: claim.kind,
        args: () => {
          this.guard?.check(key);
          const notAfter = this.session.notAfter(waitMs > 0 ? waitMs : Infinity);
          onAnswer = this.ends.onAsk(owner, key, notAfter);
          return this.acquireArguments(ask, notAfter);
        },
        read: (reply, sentAt) => {
          onAnswer();
          return this.meaning(ask, reply, sentAt);
        },
        onFailed: (error) => this.onFailed(error, [ask], [onAnswer]),
      }),
    );
  }

  /** @returns `undefined` when the server found it too late */
  private acquireAllOnce(asks: readonly Ask[]): Promise<readonly Grant[] | null | undefined> {
    const { key } = asks[0] as Ask;
    const onAnswers: (() => void)[] = [];
    const one = ({ owner, leaseMs, tokens, claim }: Ask) => [owner, leaseMs, tokens, claim.kind];
    return this.pass(key, () =>
      this.commands.run(acquireAllScript, {
        urgency: 'ask',
        key,
        kind: 'lock',
        keys: asks.flatMap((ask) => this.commands.keysOf(ask.key, 'lock')),
        args: () => {
          this.guard?.check(key);
          const notAfter = this.session.notAfter();
          for (const ask of asks) onAnswers.push(this.ends.onAsk(ask.owner, ask.key, notAfter));
          return [notAfter, this.session.floor, ...asks.flatMap(one)];
        },
        read: (reply, sentAt) => {
          for (const onAnswer of onAnswers) onAnswer();
          if (reply[0] === 0) return undefined;
          if (reply[0] === 2) return null;
          const [, , ...tokens] = reply;
          return asks.map((ask, i) => this.granted(ask, sentAt, tokens[2 * i], tokens[2 * i + 1]));
        },
        onFailed: (error) => this.onFailed(error, asks, onAnswers),
      }),
    );
  }

  private pass<T>(key: string, ask: () => Promise<T>): Promise<T> {
    return this.guard ? this.guard.pass(key, ask) : ask();
  }

  private onFailed(error: LockStoreError, asks: readonly Ask[], onAnswers: readonly (() => void)[]): void {
    // It was refused, or never written: nothing of it can be executed any more.
    if (error.reason !== 'unknown') for (const onAnswer of onAnswers) onAnswer();
    // Redis undoes nothing of a script that was denied halfway: it may have written a place in the line, or a lock.
    if (isDenied(error.cause)) for (const ask of asks) this.undo(ask);
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

  private meaning(ask: Ask, reply: ReplyOf<typeof acquireScript>, sentAt: number): AcquireReply | undefined {
    switch (reply[0]) {
      case 0:
        return undefined;
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

function alwaysLate(key: string): never {
  throw unknown('it found two requests in a row too late, by its own clock', key);
}
