import { type ClockReading, timeOfDay } from '../../common/clock.js';
import { inBackground } from '../../common/promises.js';
import type { AcquireRequest, Queued, TakeoverNotice } from '../../port/lock-store.js';
import { leaseMargin, maxNoticeMs } from '../../port/timing.js';
import { CallSite } from '../request/call-site.js';
import { AcquireLoop } from './acquire-loop.js';
import type { Owner } from './owner.js';

/**
 * How many ms a takeover waits for the holder before it releases the lock by force, counted from the store's reply to the announcement. The
 * holder counts its grace from when its process receives the notice, and by its own clock. So the longest time that the notice may take and
 * the drift of both clocks are added to the grace.
 */
export function forcedAfterMs(graceMs: number, commandTimeoutMs: number): number {
  return graceMs + leaseMargin(graceMs) + maxNoticeMs(commandTimeoutMs);
}

/**
 * Takes the lock over for an owner that waits at the head of the queue.
 *
 * 1. The store replies that somebody holds the lock. The takeover asks the store to announce the takeover to that holder.
 * 2. The holder's process gives the lock up when the grace is over, at the latest. The store then grants it to the head of the queue.
 * 3. If the same holder still has the lock after the longest time that the notice and the grace can take (`forcedAfterMs`), the
 *    takeover releases the lock by force. If the store knows of no process to notify, it does so as soon as the grace is over.
 *
 * The notification to the holder may be lost. So each further reply that names the same holder repeats the announcement, with what is
 * left of the grace.
 */
export class TakeoverLoop extends AcquireLoop {
  private target: Target | undefined;

  constructor(
    owner: Owner,
    private readonly graceMs: number,
  ) {
    super(owner);
  }

  protected override send(request: AcquireRequest): void {
    // This names its own ticket in the first request, so the store may have put the owner into its queue even if it replies `busy`. Then
    // the owner must send a release.
    this.mayComeLate = true;
    super.send({ ...request, ticket: request.ticket || this.firstTicket() });
  }

  /**
   * A ticket ahead of all tickets that stores give out. It is the time of day, so earlier takeovers are ahead of later ones as far as
   * the clocks of their processes agree.
   */
  private firstTicket(): number {
    return timeOfDay(this.runtime.clock) - Number.MAX_SAFE_INTEGER;
  }

  protected override othersAhead(): number {
    return 0;
  }

  /** Announces the takeover to the holder, or forces the release when it is due. */
  protected override waitFor(reply: Queued): void {
    super.waitFor(reply);
    const { holder } = reply;
    if (holder === undefined) return;
    const { now } = this.owner;
    if (holder !== this.target?.holder)
      this.target = { holder, graceUntil: now + this.graceMs, forcedAt: Infinity, isAsking: false };
    const { target } = this;
    if (now >= target.forcedAt) return this.force(target);
    this.recheckAfter(target.forcedAt - now);
    if (now < target.graceUntil || target.forcedAt === Infinity) this.announce(target);
  }

  private announce(target: Target): void {
    if (target.isAsking) return;
    target.isAsking = true;
    const { key, queue } = this.owner;
    const { holderDirectory, store } = this.runtime;
    const by = holderDirectory.nameOf(this.owner.id, CallSite.textOf(queue.site));
    const isFirst = target.forcedAt === Infinity;
    const graceMs = isFirst ? this.graceMs : Math.ceil(target.graceUntil - this.owner.now);
    const announced = store.announceTakeover({ key, owner: target.holder, graceMs, by }).then((reply) => {
      target.isAsking = false;
      if (isFirst) this.onAnnounced(target, reply);
    });
    inBackground(announced, (error) => this.onFailed(target, error));
  }

  private onAnnounced(target: Target, reply: 'announced' | 'nobody to tell'): void {
    const { owner, graceMs } = this;
    const { runtime, now } = owner;
    if (reply === 'announced') {
      target.graceUntil = now + graceMs;
      target.forcedAt = now + forcedAfterMs(graceMs, runtime.store.commandTimeoutMs);
    } else target.forcedAt = target.graceUntil;
    if (target === this.target) this.recheckAfter(target.forcedAt - now);
  }

  private force(target: Target): void {
    if (target.isAsking) return;
    target.isAsking = true;
    const { owner } = this;
    const { key, runtime } = owner;
    const { holder } = target;
    const forced = runtime.store.forceRelease(key, { owners: [holder] }).then((reply) => {
      target.isAsking = false;
      if (reply === 'released') runtime.emit({ type: 'forced', key, owner: owner.id, holder });
      else this.recheckAfter(0);
    });
    inBackground(forced, (error) => this.onFailed(target, error));
  }

  /** The takeover tries again at the next recheck, when the store names the same holder. */
  private onFailed(target: Target, error: unknown): void {
    target.isAsking = false;
    this.owner.runtime.emit({ type: 'error', key: this.owner.key, during: 'takeover', error });
  }
}

/** The holder from which the takeover is taking the lock, and the progress so far. */
interface Target {
  readonly holder: string;
  graceUntil: number;
  /** When to release the lock by force. `Infinity` until the store has replied to the announcement. */
  forcedAt: number;
  /** An announcement to this holder, or its forced release, is in flight. */
  isAsking: boolean;
}

/**
 * The grace on the side of the holder: how long work under the lock may go on after another call has announced a takeover. When the grace
 * ends, the owner loses the lock.
 */
export class Grace {
  readonly graceMs: number;
  readonly by: string;
  private readonly toldAt: ClockReading;
  readonly stop: () => void;

  constructor(
    private readonly owner: Owner,
    { graceMs, by }: Notice,
  ) {
    this.graceMs = graceMs;
    this.by = by;
    this.toldAt = owner.readClocks();
    this.stop = owner.runtime.clock.after(graceMs, () => owner.onGraceOver(this));
  }

  /**
   * The rest of the grace, in ms. Time for which the machine was suspended counts, too. The monotonic clock may stand still meanwhile,
   * so the gain of the time of day is subtracted.
   */
  leftMs({ now, wallClockOffset } = this.owner.readClocks()): number {
    const { graceMs, toldAt } = this;
    return graceMs - (now - toldAt.now) - Math.max(0, wallClockOffset - toldAt.wallClockOffset);
  }

  /**
   * Whether this grace ends before that of `notice`, so that `notice` changes nothing.
   *
   * A takeover repeats its notice with what is left of the grace. The repetition may arrive as late as `forcedAfterMs` allows for, and must
   * not shorten the grace that the first notice promised. A notice with the same `by` counts as a repetition, even if another takeover of
   * that process sent it.
   */
  isOverBefore({ graceMs, by }: Notice): boolean {
    const { commandTimeoutMs } = this.owner.runtime.store;
    const lateMs = by === this.by ? maxNoticeMs(commandTimeoutMs) : 0;
    return graceMs >= this.leftMs() - lateMs;
  }

  report(): void {
    const { key, id: owner, runtime, holds } = this.owner;
    const { graceMs, by } = this;
    runtime.emit({ type: 'takeover', key, owner, graceMs, by });
    for (const hold of holds) hold.tellTakeover();
  }
}

type Notice = Pick<TakeoverNotice, 'graceMs' | 'by'>;
