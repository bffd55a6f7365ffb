import { Delays } from '../../common/clock.js';
import type { SentCopy } from '../../connection/owner-requests.js';
import type { Renewal, RenewalReply } from '../../port/lock-store.js';
import { LockStoreError } from '../../port/lock.errors.js';
import { leaseValidity } from '../../port/timing.js';
import { type Arguments, type RedisClient, WireKeys } from '../client.js';
import { TOO_LATE } from '../command.js';
import { isOtherData, isWrongType, unknown } from '../errors.js';
import {
  claimFields,
  type ReplyOf,
  ScriptCommand,
  type ScriptContext,
  SCRIPTS,
} from '../scripts/script-command.js';

/** The most renewals in one script. Redis runs nothing else meanwhile, so a larger batch would delay other commands. */
const MAX_AT_ONCE = 50;

type Replies = readonly RenewalReply[];

/** Base class of the commands that restart one lease or several. */
abstract class RenewingCommand<
  R extends ReplyOf<typeof SCRIPTS.renew | typeof SCRIPTS.renewPlain>,
> extends ScriptCommand<R, Replies> {
  readonly priority = 'renew';
  /** A renewal may confirm a grant by notification, whose caller is about to start and may block the event loop. */
  override readonly flush: 'now' | undefined;
  override readonly isRepeatable: boolean;
  /** For how many ms an earlier request without a reply may still be executed, and shorten one of the leases. */
  unsureForMs = 0;
  /** The leases that the latest copy of this command requests; `undefined` as soon as that copy has a reply. */
  private written: readonly SentCopy[] | undefined;
  private closesBefore = 0;

  constructor(
    context: ScriptContext,
    protected readonly renewals: readonly Renewal[],
  ) {
    const [{ key, claim }] = renewals as readonly [Renewal, ...Renewal[]];
    const isOne = renewals.length === 1;
    const keys = isOne
      ? context.keysOf(key, claim.kind)
      : new WireKeys(renewals.flatMap((renewal) => context.namesOf(renewal.key, 'lock')));
    super(context, { key, kind: claim.kind, keys });
    this.flush = isOne ? 'now' : undefined;
    this.isRepeatable = isOne;
  }

  /**
   * Records that a copy of this command is about to be sent.
   *
   * @returns the deadline of the copy, in server time
   * @throws LockStoreError for a second copy if one of its owners has sent a newer renewal since, which must be executed last
   */
  protected recordCopy(): number {
    const isAgain = this.wasTooLate || this.isSecondCopy;
    if (isAgain && !this.renewals.every((renewal) => this.context.requestsByOwner.isLatest(renewal)))
      throw unknown('it found a renewal too late that a newer one follows', this.key);
    this.settleCopies('given up');
    const notAfter = this.context.notAfter(this.sent);
    this.written = this.renewals.map(({ owner, leaseMs }) => {
      const copy = { leaseMs, deadline: notAfter };
      this.context.requestsByOwner.get(owner)?.onRenewalSent(copy);
      return copy;
    });
    this.closesBefore = this.context.connection.nodeCloses;
    return notAfter;
  }

  protected onAnswered(): void {
    // If a connection to a node has closed meanwhile, ioredis may have sent the command twice by itself. Then the copy that was not
    // answered may still be executed, so treat the request as one without a reply.
    this.settleCopies(this.context.connection.nodeCloses === this.closesBefore ? 'answered' : 'given up');
  }

  protected override onFailed({ reason }: LockStoreError): void {
    if (reason === 'unknown') this.settleCopies('given up');
    else this.onAnswered();
  }

  /** The reply to a single renewal whose lock is lost, without the server's time. */
  protected abstract readonly lostReply: R;

  /**
   * A lock whose key holds something else is lost: Redis has forgotten it, and the key was used for permits or for data since. The renewals
   * of a batch are sent again one by one.
   */
  override async recover(client: RedisClient, error: unknown): Promise<unknown> {
    const { renewals, kind, key, context } = this;
    const mayBeLost = renewals.length === 1 && isWrongType(error);
    if (mayBeLost && (await isOtherData(client, kind, context.lockName(key)))) return this.lostReply;
    return super.recover(client, error);
  }

  protected replyTo(
    { owner, leaseMs }: Renewal,
    { waiting, executedAt }: { readonly waiting: number; readonly executedAt: number },
  ): RenewalReply {
    if (waiting < 0) return { kind: 'lost' };
    const late = this.context.requestsByOwner.get(owner)?.pendingRequestThatWouldShorten(leaseMs, executedAt);
    if (late) this.unsureForMs = Math.max(this.unsureForMs, late.deadline - executedAt + 1);
    const validUntil = leaseValidity(this.sent.now, late?.leaseMs ?? leaseMs);
    return { kind: 'renewed', validUntil, waiting };
  }

  private settleCopies(how: 'answered' | 'given up'): void {
    const { written = [] } = this;
    this.written = undefined;
    written.forEach((copy, i) => {
      const owner = this.context.requestsByOwner.get((this.renewals[i] as Renewal).owner);
      if (how === 'answered') owner?.onRenewalAnswered(copy);
      else owner?.onRenewalGivenUp(copy);
    });
  }
}

class RenewCommand extends RenewingCommand<ReplyOf<typeof SCRIPTS.renew>> {
  protected readonly script = SCRIPTS.renew;
  protected readonly lostReply = [0, 0] as const;

  protected args(): Arguments {
    const notAfter = this.recordCopy();
    const [{ owner, claim, leaseMs, token, lastToken }] = this.renewals as readonly [Renewal];
    const { minToken, serverFields } = this.context;
    const options = `{${claimFields(claim)},"min_token":${minToken},${serverFields}}`;
    return [owner, leaseMs, token, lastToken, notAfter, options];
  }

  protected onReply([kind, executedAt, count = 0]: ReplyOf<typeof SCRIPTS.renew>): Replies | typeof TOO_LATE {
    this.onAnswered();
    const waiting = kind === 0 ? -1 : count;
    return kind === 2
      ? TOO_LATE
      : this.renewals.map((renewal) => this.replyTo(renewal, { waiting, executedAt }));
  }
}

class RenewPlainCommand extends RenewingCommand<ReplyOf<typeof SCRIPTS.renewPlain>> {
  protected readonly script = SCRIPTS.renewPlain;
  protected readonly lostReply = [1, 0, -1] as const;

  protected args(): Arguments {
    const notAfter = this.recordCopy();
    const one = ({ owner, leaseMs, token, lastToken }: Renewal) => [owner, leaseMs, token, lastToken];
    return [this.context.connection.publish, notAfter, ...this.renewals.flatMap(one)];
  }

  protected onReply([kind, executedAt, ...counts]: ReplyOf<typeof SCRIPTS.renewPlain>):
    | Replies
    | typeof TOO_LATE {
    this.onAnswered();
    if (kind === 0) return TOO_LATE;
    return this.renewals.map((renewal, i) => this.replyTo(renewal, { waiting: counts[i] ?? -1, executedAt }));
  }
}

/** Restarts leases: plain locks of one server in batches, all others one by one. */
export class Renewals {
  private readonly delays: Delays;

  constructor(private readonly context: ScriptContext) {
    this.delays = new Delays(context.connection.clock);
  }

  /** Never rejects: a renewal that failed gets the reply `unknown`. */
  async run(renewals: readonly Renewal[]): Promise<Replies> {
    for (const renewal of renewals)
      this.context.requestsByOwner.beginRequest(renewal.owner).latestRenewal = renewal;
    if (renewals.length === 1) return this.renew(renewals);
    const replies = new Map<Renewal, RenewalReply>();
    const renewBatch = async (batch: readonly Renewal[]) => {
      const ofBatch = await this.renew(batch);
      batch.forEach((renewal, i) => replies.set(renewal, ofBatch[i] as RenewalReply));
    };
    await Promise.all(this.batchesOf(renewals).map(renewBatch));
    return renewals.map((renewal) => replies.get(renewal) as RenewalReply);
  }

  close(): void {
    this.delays.endAll();
  }

  private batchesOf(renewals: readonly Renewal[]): readonly (readonly Renewal[])[] {
    const isPlain = ({ claim }: Renewal) => claim.kind === 'lock' && !this.context.isCluster;
    const plain = renewals.filter(isPlain);
    const batches = renewals.filter((renewal) => !isPlain(renewal)).map((renewal) => [renewal]);
    for (let i = 0; i < plain.length; i += MAX_AT_ONCE) batches.push(plain.slice(i, i + MAX_AT_ONCE));
    return batches;
  }

  private async renew(batch: readonly Renewal[]): Promise<Replies> {
    const { context } = this;
    const { requestsByOwner } = context;
    const [first, another] = batch;
    try {
      const replies = await (first && !another
        ? this.renewForSure(first)
        : context.connection.run(this.commandFor(batch)));
      for (const { owner } of batch) requestsByOwner.endRequest(owner);
      return replies;
    } catch (error) {
      // If one key holds other data, Redis refuses the whole batch. Send the renewals one by one, so that only the one of that key is
      // refused.
      const isSpoiled = another && error instanceof LockStoreError && error.reason === 'refused';
      const again = async (renewal: Renewal) =>
        isSpoiled && requestsByOwner.isLatest(renewal)
          ? this.renew([renewal])
          : this.unknownReply(renewal, error);
      return (await Promise.all(batch.map(again))).flat();
    }
  }

  /**
   * Renews one lease. An earlier request with a shorter lease that got no reply may be executed late and shorten this lease
   * (`extend` to less and then to more, on a connection that breaks). So the renewal is repeated until the server has executed one copy
   * after the deadline of that request, by the server's clock: that clock may be slower than ours, or may be set back while we wait.
   *
   * @throws LockStoreError if that would take longer than the lease itself, because the server's clock was set back by more
   */
  private async renewForSure(renewal: Renewal): Promise<Replies> {
    const { context } = this;
    const { clock } = context.connection;
    const giveUpAt = clock.now() + renewal.leaseMs;
    for (;;) {
      const command = this.commandFor([renewal]);
      const replies = await context.connection.run(command);
      if (command.unsureForMs === 0) return replies;
      if (clock.now() + command.unsureForMs > giveUpAt)
        throw unknown('an earlier renewal without a reply may still shorten the lease', renewal.key);
      await this.delays.wait(command.unsureForMs);
      if (!context.requestsByOwner.isLatest(renewal)) return replies;
    }
  }

  private commandFor(batch: readonly Renewal[]): RenewPlainCommand | RenewCommand {
    const isPlain = batch[0]?.claim.kind === 'lock';
    return isPlain ? new RenewPlainCommand(this.context, batch) : new RenewCommand(this.context, batch);
  }

  private unknownReply({ owner }: Renewal, error: unknown): Replies {
    this.context.requestsByOwner.endRequest(owner);
    return [{ kind: 'unknown', error: error as LockStoreError }];
  }
}
