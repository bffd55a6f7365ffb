import { leaseValidity } from '../../../port/lease-validity.js';
import type { LockStoreError } from '../../../port/lock.errors.js';
import type { Renewal, RenewalReply } from '../../../port/lock-store.js';
import { unknown } from '../connection/redis.errors.js';
import type { WireKeys } from '../scripts/evalsha.js';
import { ScriptCommand, type ScriptReply } from '../scripts/script-command.js';
import type { ScriptContext } from '../scripts/script-context.js';
import type { Script } from '../scripts/scripts.js';
import type { LeaseRequest, OwnerStates } from '../../common/owner-states.js';

export type Replies = readonly RenewalReply[];

/** Base class of the commands that restart one lease or several. */
export abstract class RenewingCommand<R extends ScriptReply> extends ScriptCommand<R, Replies> {
  readonly priority = 'renew';
  /** For how long an earlier request may still be executed, and shorten one of the leases. */
  unsureForMs = 0;
  /** The last copy, while it has no answer: what it asks for each owner. */
  private written: readonly LeaseRequest[] | undefined;
  private closesBefore = 0;

  constructor(
    script: Script<R>,
    context: ScriptContext,
    protected readonly renewals: readonly Renewal[],
    private readonly owners: OwnerStates,
    keys?: WireKeys,
  ) {
    const [{ key, claim }] = renewals as readonly [Renewal];
    super(script, context, { key, kind: claim.kind }, keys);
  }

  /**
   * The command is about to be written.
   *
   * @returns the not-after
   * @throws LockStoreError for a second copy after a newer renewal of one of its owners, which must be executed last
   */
  protected onWrite(): number {
    const isAgain = this.wasExpired || this.isSecondCopy;
    if (isAgain && !this.renewals.every((renewal) => this.owners.isLatest(renewal)))
      throw unknown('it found a renewal too late that a newer one follows', this.key);
    this.end('given up');
    const notAfter = this.context.notAfter(this.sent);
    this.written = this.renewals.map(({ owner, leaseMs }) => {
      const copy = { leaseMs, notAfter };
      this.owners.get(owner)?.onRenewalSent(copy);
      return copy;
    });
    this.closesBefore = this.context.nodeCloses;
    return notAfter;
  }

  protected onAnswered(): void {
    // A cluster client repeats by itself what a closed connection has not answered, and which copy was answered is not known.
    this.end(this.context.nodeCloses === this.closesBefore ? 'answered' : 'given up');
  }

  protected override onFailed({ reason }: LockStoreError): void {
    if (reason === 'unknown') this.end('given up');
    else this.onAnswered();
  }

  protected replyTo(
    { owner, leaseMs }: Renewal,
    { waiting, executedAt }: { readonly waiting: number; readonly executedAt: number },
  ): RenewalReply {
    if (waiting < 0) return { kind: 'lost' };
    const late = this.owners.get(owner)?.shorterThan(leaseMs, executedAt);
    if (late) this.unsureForMs = Math.max(this.unsureForMs, late.notAfter - executedAt + 1);
    const validUntil = leaseValidity(this.sent.now, late?.leaseMs ?? leaseMs);
    return { kind: 'renewed', validUntil, waiting };
  }

  private end(how: 'answered' | 'given up'): void {
    const { written = [] } = this;
    this.written = undefined;
    written.forEach((copy, i) => {
      const owner = this.owners.get((this.renewals[i] as Renewal).owner);
      if (how === 'answered') owner?.onRenewalAnswered(copy);
      else owner?.onRenewalGivenUp(copy);
    });
  }
}
