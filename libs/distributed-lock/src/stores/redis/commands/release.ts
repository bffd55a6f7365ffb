import { RebuiltMap } from '../../../collections/rebuilt-map.js';
import type { Claim } from '../../../port/claim.js';
import type { Clock } from '../../../time/clock.js';
import type { ReleaseRequest, ReleaseReply } from '../../../port/lock-store.js';
import { Delays } from '../../../time/delays.js';
import type { Arguments } from '../scripts/evalsha.js';
import type { Call, ScriptRunner } from '../scripts/script-runner.js';
import { callerHasLeft } from '../connection/redis.errors.js';
import { releaseScript, type ReplyOf } from '../scripts/scripts.js';
import { permitsOf, weightOf, type ScriptContext } from '../scripts/script-context.js';

const RETRY_MS = { least: 100, spread: 400 };

type Reply = ReplyOf<typeof releaseScript>;

/** What is under way for an owner, and what may come late. */
export class RequestsOfOwner {
  acquires = 0;
  releases = 0;
  isReleasing = false;
  /** Until when, in server time, an acquire that was not answered may be executed. */
  lateUntil: number | undefined;

  /** There is nothing that a later command of the owner must know. */
  get areOver(): boolean {
    return this.acquires === 0 && this.releases === 0 && (this.isReleasing || this.lateUntil === undefined);
  }

  /**
   * An acquire is about to be written.
   *
   * @returns until when one before it, that was never answered, may be executed: for `onAnswer`
   * @throws LockStoreError if its owner is being ended: it must not hold after that
   */
  onAcquireSent(key: string, notAfter: number): number | undefined {
    if (this.isReleasing) throw callerHasLeft(key);
    const before = this.lateUntil;
    this.lateUntil = Math.max(notAfter, before ?? 0);
    return before;
  }

  /** It was executed, or never will be. */
  onAcquireAnswered(before: number | undefined): void {
    this.lateUntil = before;
  }
}

/** The same bytes each time: a repetition that said another last token would give one of them out twice. */
class ReleaseCall implements Call<Reply, Reply> {
  readonly urgency = 'release';
  readonly key: string;
  readonly kind: Claim['kind'];
  readonly isPressing: boolean | undefined;
  readonly isAwaited: boolean | undefined;
  private readonly owner: string;
  private readonly isPlain: boolean;
  private readonly keepUntil: number;
  private readonly more: string;

  constructor(
    { key, owner, claim, used, isContended: isWanted, isAwaited, keepUntil = 0 }: ReleaseRequest,
    { minToken: floor, cluster, publish }: ScriptContext,
    private readonly doings: RequestsOfOwner,
    private readonly clock: Clock,
  ) {
    this.key = key;
    this.kind = claim.kind;
    this.isPressing = isWanted;
    this.isAwaited = isAwaited;
    this.owner = owner;
    this.isPlain = claim.kind === 'lock' && publish === 'PUBLISH' && !used;
    const tokens = used ? `${used.token} ${used.lastToken}` : '0 0';
    this.keepUntil = keepUntil;
    this.more = `${claim.kind} ${publish} ${tokens} ${floor} ${cluster} ${weightOf(claim)} ${permitsOf(claim)}`;
  }

  args(): Arguments {
    const when = this.doings.lateUntil === undefined ? 0 : 1;
    const keepMs = Math.max(0, Math.ceil(this.keepUntil - this.clock.now()));
    return [this.owner, `${this.isPlain && when + keepMs === 0 ? 1 : 0} ${when} ${this.more} ${keepMs}`];
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
export class Releases {
  private readonly owners = new RebuiltMap<string, RequestsOfOwner>();
  private readonly pauses: Delays;
  private isClosed = false;

  constructor(
    private readonly commands: ScriptRunner,
    private readonly session: ScriptContext,
    private readonly clock: Clock,
  ) {
    this.pauses = new Delays(clock);
  }

  /** From now on, until `onAsked`, an acquire of `owner` may be written: it is refused to one that has ended by then. */
  onAcquireStarted(owner: string): RequestsOfOwner {
    const doings = this.doingsOf(owner);
    doings.acquires += 1;
    return doings;
  }

  onAcquireEnded(owner: string): void {
    const doings = this.doingsOf(owner);
    doings.acquires -= 1;
    if (doings.areOver) this.owners.delete(owner);
  }

  isReleasing(owner: string): boolean {
    return this.owners.get(owner)?.isReleasing ?? false;
  }

  /**
   * Repeats the end until it was executed when no acquire before it can be executed any more.
   *
   * @throws LockStoreError when the server refuses, or does not answer, until `giveUpAt`
   */
  async run(end: ReleaseRequest, giveUpAt: number): Promise<ReleaseReply> {
    const { owner } = end;
    const doings = this.doingsOf(owner);
    doings.isReleasing = true;
    doings.releases += 1;
    const call = new ReleaseCall(end, this.session, doings, this.clock);
    let wasHolder = false;
    let isUnsure = false;
    try {
      for (;;) {
        try {
          const [held, executedAt] = await this.commands.run(releaseScript, call);
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
        await this.pauses.wait(RETRY_MS.least + Math.random() * RETRY_MS.spread);
      }
    } finally {
      doings.releases -= 1;
      if (doings.areOver) this.owners.delete(owner);
    }
  }

  close(): void {
    this.isClosed = true;
    this.pauses.endAll();
  }

  private doingsOf(owner: string): RequestsOfOwner {
    let doings = this.owners.get(owner);
    if (!doings) this.owners.set(owner, (doings = new RequestsOfOwner()));
    return doings;
  }
}
