import { ChurningMap, ChurningSet } from '../../lock/churning-map.js';
import type { Claim } from '../../lock/claim.js';
import type { Clock } from '../../lock/clock.js';
import type { EndReply } from '../../lock/lock-store.js';
import { Pauses } from '../../lock/pauses.js';
import type { Arguments, RedisCommands } from './redis.commands.js';
import { callerHasLeft } from './redis.errors.js';
import { endScript, type ReplyOf } from './redis.scripts.js';

const RETRY_MS = { least: 100, spread: 400 };

interface PendingEnd {
  readonly key: string;
  readonly owner: string;
  readonly kind: Claim['kind'];
  /** The same bytes each time: a repetition that said another last token would give one of them out twice. */
  readonly args: Arguments;
  readonly giveUpAt: number;
  readonly isWanted: boolean | undefined;
}

/**
 * Ends that are executed for certain.
 *
 * An acquire that was never answered may lie in a socket and be executed after the end that follows it. It carries the
 * server time after which it does nothing; so its end is repeated until one was executed later than that
 * (docs/decisions/0003, P1).
 */
export class RedisEnds {
  private readonly ending = new ChurningSet<string>();
  /** How many ends, and how many acquires, of an owner are under way. */
  private readonly ends = new Counts();
  private readonly asks = new Counts();
  /** Until when, in server time, an unanswered acquire of an owner may be executed. */
  private readonly lateUntil = new ChurningMap<string, number>();
  private readonly pauses: Pauses;
  private isClosed = false;

  constructor(
    private readonly commands: RedisCommands,
    private readonly clock: Clock,
  ) {
    this.pauses = new Pauses(clock);
  }

  /** From now on, until `onAsked`, an acquire of `owner` may be written: it is refused to one that has ended by then. */
  onAsking(owner: string): void {
    this.asks.add(owner);
  }

  onAsked(owner: string): void {
    this.asks.remove(owner);
    this.forget(owner);
  }

  /**
   * An acquire is about to be written.
   *
   * @returns what to call once it is answered; attempts before it that never were may still be executed
   * @throws LockStoreError if its owner is being ended: it must not hold after that
   */
  onAsk(owner: string, key: string, notAfter: number): () => void {
    if (this.ending.has(owner)) throw callerHasLeft(key);
    const before = this.lateUntil.get(owner);
    this.lateUntil.set(owner, Math.max(notAfter, before ?? 0));
    return () => {
      if (before === undefined) this.lateUntil.delete(owner);
      else this.lateUntil.set(owner, before);
    };
  }

  isEnding(owner: string): boolean {
    return this.ending.has(owner);
  }

  /** @throws LockStoreError when the server refuses, or does not answer, until `giveUpAt` */
  async run(end: PendingEnd): Promise<EndReply> {
    const { owner } = end;
    this.ending.add(owner);
    this.ends.add(owner);
    let wasHolder = false;
    let isUnsure = false;
    try {
      for (;;) {
        try {
          const reply = await this.send(end);
          wasHolder ||= reply[0] === 1;
          if (this.isCertain(owner, reply[1])) {
            if (wasHolder) return 'released';
            return isUnsure ? 'unknown' : 'not held';
          }
        } catch (error) {
          // Also when it was refused: a right that is missing for a moment must not leave the lock behind.
          if (this.isClosed || this.clock.now() > end.giveUpAt) throw error;
          isUnsure = true;
        }
        await this.pauses.pause(RETRY_MS.least + Math.random() * RETRY_MS.spread);
      }
    } finally {
      this.ends.remove(owner);
      this.forget(owner);
    }
  }

  /** Once it has ended and nothing of it can be written any more. */
  private forget(owner: string): void {
    if (!this.ending.has(owner) || this.ends.has(owner) || this.asks.has(owner)) return;
    this.ending.delete(owner);
    this.lateUntil.delete(owner);
  }

  close(): void {
    this.isClosed = true;
    this.pauses.wakeAll();
  }

  private send({ key, owner, kind, args, isWanted }: PendingEnd): Promise<ReplyOf<typeof endScript>> {
    return this.commands.run(endScript, {
      urgency: 'end',
      isPressing: isWanted,
      key,
      kind,
      args: () => [...args, this.lateUntil.has(owner) ? 1 : 0],
      read: (reply) => reply,
    });
  }

  /** Executed when no acquire before it can be executed any more. */
  private isCertain(owner: string, executedAt: number): boolean {
    const lateUntil = this.lateUntil.get(owner);
    return lateUntil === undefined || executedAt > lateUntil;
  }
}

/** How often each of some names counts. */
class Counts {
  private readonly counts = new ChurningMap<string, number>();

  has(name: string): boolean {
    return this.counts.has(name);
  }

  add(name: string): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
  }

  remove(name: string): void {
    const count = this.counts.get(name) ?? 0;
    if (count > 1) this.counts.set(name, count - 1);
    else this.counts.delete(name);
  }
}
