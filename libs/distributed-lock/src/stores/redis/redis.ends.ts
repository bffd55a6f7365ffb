import { ChurningMap } from '../../lock/churning-map.js';
import type { Claim } from '../../lock/claim.js';
import type { Clock } from '../../lock/clock.js';
import type { End, EndReply } from '../../lock/lock-store.js';
import { Pauses } from '../../lock/pauses.js';
import type { Arguments } from './evalsha.js';
import type { Call, RedisCommands } from './redis.commands.js';
import { callerHasLeft } from './redis.errors.js';
import { endScript, type ReplyOf } from './redis.scripts.js';
import { weightOf, type RedisSession } from './redis.session.js';

const RETRY_MS = { least: 100, spread: 400 };

type Reply = ReplyOf<typeof endScript>;

/** What is under way for an owner, and what may come late. */
export class Doings {
  asks = 0;
  ends = 0;
  isEnding = false;
  /** Until when, in server time, an acquire that was not answered may be executed. */
  lateUntil: number | undefined;

  /** There is nothing that a later command of the owner must know. */
  get areOver(): boolean {
    return this.asks === 0 && this.ends === 0 && (this.isEnding || this.lateUntil === undefined);
  }

  /**
   * An acquire is about to be written.
   *
   * @returns until when one before it, that was never answered, may be executed: for `onAnswer`
   * @throws LockStoreError if its owner is being ended: it must not hold after that
   */
  onAsk(key: string, notAfter: number): number | undefined {
    if (this.isEnding) throw callerHasLeft(key);
    const before = this.lateUntil;
    this.lateUntil = Math.max(notAfter, before ?? 0);
    return before;
  }

  /** It was executed, or never will be. */
  onAnswer(before: number | undefined): void {
    this.lateUntil = before;
  }
}

/** The same bytes each time: a repetition that said another last token would give one of them out twice. */
class EndCall implements Call<Reply, Reply> {
  readonly urgency = 'end';
  readonly key: string;
  readonly kind: Claim['kind'];
  readonly isPressing: boolean | undefined;
  readonly isAwaited: boolean | undefined;
  private readonly owner: string;
  private readonly isPlain: boolean;
  private readonly more: string;

  constructor(
    { key, owner, claim, used, isWanted, isAwaited }: End,
    { floor, cluster, publish }: RedisSession,
    private readonly doings: Doings,
  ) {
    this.key = key;
    this.kind = claim.kind;
    this.isPressing = isWanted;
    this.isAwaited = isAwaited;
    this.owner = owner;
    this.isPlain = claim.kind === 'lock' && publish === 'PUBLISH' && !used;
    const tokens = used ? `${used.token} ${used.lastToken}` : '0 0';
    this.more = `${claim.kind} ${publish} ${tokens} ${floor} ${cluster} ${weightOf(claim)}`;
  }

  args(): Arguments {
    const when = this.doings.lateUntil === undefined ? 0 : 1;
    return [this.owner, `${this.isPlain && when === 0 ? 1 : 0} ${when} ${this.more}`];
  }

  read(reply: Reply): Reply {
    return reply;
  }
}

/**
 * Ends that are executed for certain.
 *
 * An acquire that was never answered may lie in a socket and be executed after the end that follows it. It carries the
 * server time after which it does nothing; so its end is repeated until one was executed later than that
 * (docs/decisions/0003, P1).
 */
export class RedisEnds {
  private readonly owners = new ChurningMap<string, Doings>();
  private readonly pauses: Pauses;
  private isClosed = false;

  constructor(
    private readonly commands: RedisCommands,
    private readonly session: RedisSession,
    private readonly clock: Clock,
  ) {
    this.pauses = new Pauses(clock);
  }

  /** From now on, until `onAsked`, an acquire of `owner` may be written: it is refused to one that has ended by then. */
  onAsking(owner: string): Doings {
    const doings = this.doingsOf(owner);
    doings.asks += 1;
    return doings;
  }

  onAsked(owner: string): void {
    const doings = this.doingsOf(owner);
    doings.asks -= 1;
    if (doings.areOver) this.owners.delete(owner);
  }

  isEnding(owner: string): boolean {
    return this.owners.get(owner)?.isEnding ?? false;
  }

  /**
   * Repeats the end until it was executed when no acquire before it can be executed any more.
   *
   * @throws LockStoreError when the server refuses, or does not answer, until `giveUpAt`
   */
  async run(end: End, giveUpAt: number): Promise<EndReply> {
    const { owner } = end;
    const doings = this.doingsOf(owner);
    doings.isEnding = true;
    doings.ends += 1;
    const call = new EndCall(end, this.session, doings);
    let wasHolder = false;
    let isUnsure = false;
    try {
      for (;;) {
        try {
          const [held, executedAt] = await this.commands.run(endScript, call);
          wasHolder ||= held === 1;
          // Its own clock decides at the end: the server's may have been set back meanwhile, by any time.
          const isOver = executedAt > (doings.lateUntil ?? -1) || this.clock.now() > giveUpAt;
          if (isOver) {
            if (wasHolder) return 'released';
            return isUnsure ? 'unknown' : 'not held';
          }
        } catch (error) {
          // Also when it was refused: a right that is missing for a moment must not leave the lock behind.
          if (this.isClosed || this.clock.now() > giveUpAt) throw error;
          isUnsure = true;
        }
        await this.pauses.pause(RETRY_MS.least + Math.random() * RETRY_MS.spread);
      }
    } finally {
      doings.ends -= 1;
      if (doings.areOver) this.owners.delete(owner);
    }
  }

  close(): void {
    this.isClosed = true;
    this.pauses.wakeAll();
  }

  private doingsOf(owner: string): Doings {
    let doings = this.owners.get(owner);
    if (!doings) this.owners.set(owner, (doings = new Doings()));
    return doings;
  }
}
