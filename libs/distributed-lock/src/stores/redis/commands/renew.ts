import { leaseValidity } from '../../../port/lease-validity.js';
import { LockStoreError } from '../../../port/lock.errors.js';
import type { Renewal, RenewalReply } from '../../../port/lock-store.js';
import { EXPIRED } from '../connection/redis.command.js';
import type { RedisConnection } from '../connection/redis.connection.js';
import { unknown } from '../connection/redis.errors.js';
import { WireKeys, type Arguments } from '../scripts/evalsha.js';
import { ScriptCommand, type ScriptReply } from '../scripts/script-command.js';
import { permitsOf, type ScriptContext } from '../scripts/script-context.js';
import { renewAllScript, renewScript, type ReplyOf, type Script } from '../scripts/scripts.js';
import type { OwnerStates } from '../../common/owner-states.js';

/** The most renewals in one script. Redis runs nothing else meanwhile, so a larger batch would delay other commands. */
const MOST_AT_ONCE = 50;

type Replies = readonly RenewalReply[];

abstract class RenewingCommand<R extends ScriptReply> extends ScriptCommand<R, Replies> {
  readonly priority = 'renew';

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

  /** @throws LockStoreError for a second copy after a newer renewal of one of its owners, which must be executed last */
  protected onWrite(): void {
    if (!this.wasExpired && !this.isSecondCopy) return;
    if (this.renewals.every((renewal) => this.owners.isLatest(renewal))) return;
    throw unknown('it found a renewal too late that a newer one follows', this.key);
  }

  protected replyTo({ leaseMs }: Renewal, waiting: number): RenewalReply {
    if (waiting < 0) return { kind: 'lost' };
    return { kind: 'renewed', validUntil: leaseValidity(this.sentAt, leaseMs), waiting };
  }
}

class RenewCommand extends RenewingCommand<ReplyOf<typeof renewScript>> {
  /** A renewal may confirm a grant by notification, whose caller is about to start and may block the event loop. */
  override readonly flush = 'now';
  override readonly isRepeatable = true;

  constructor(renewal: Renewal, context: ScriptContext, owners: OwnerStates) {
    super(renewScript, context, [renewal], owners);
  }

  protected args(): Arguments {
    this.onWrite();
    const [{ owner, claim, leaseMs, token, lastToken }] = this.renewals as readonly [Renewal];
    const { publish, minToken, isCluster: cluster } = this.context;
    const { weight, permits } = permitsOf(claim);
    const options = JSON.stringify({
      kind: claim.kind,
      weight,
      permits,
      min_token: minToken,
      cluster,
      publish,
    });
    return [owner, leaseMs, token, lastToken, this.context.notAfter(), options];
  }

  protected onReply([kind, , waiting = 0]: ReplyOf<typeof renewScript>): Replies | typeof EXPIRED {
    return kind === 2 ? EXPIRED : this.renewals.map((it) => this.replyTo(it, kind === 0 ? -1 : waiting));
  }
}

class RenewAllCommand extends RenewingCommand<ReplyOf<typeof renewAllScript>> {
  constructor(renewals: readonly Renewal[], context: ScriptContext, owners: OwnerStates) {
    const keys = new WireKeys(renewals.flatMap(({ key }) => context.namesOf(key, 'lock')));
    super(renewAllScript, context, renewals, owners, keys);
  }

  protected args(): Arguments {
    this.onWrite();
    const one = ({ owner, leaseMs, token, lastToken }: Renewal) => [owner, leaseMs, token, lastToken];
    return [this.context.publish, this.context.notAfter(), ...this.renewals.flatMap(one)];
  }

  protected onReply([kind, , ...waiting]: ReplyOf<typeof renewAllScript>): Replies | typeof EXPIRED {
    return kind === 0 ? EXPIRED : this.renewals.map((it, i) => this.replyTo(it, waiting[i] ?? -1));
  }
}

/** Restarts leases: plain locks of one server in batches, all others one by one. */
export class Renewals {
  constructor(
    private readonly connection: RedisConnection,
    private readonly context: ScriptContext,
    private readonly owners: OwnerStates,
  ) {}

  /** Never rejects. */
  async run(renewals: readonly Renewal[]): Promise<Replies> {
    for (const renewal of renewals) this.owners.begin(renewal.owner).latestRenewal = renewal;
    if (renewals.length === 1) return this.renew(renewals);
    const replies = new Map<Renewal, RenewalReply>();
    const renewBatch = async (batch: readonly Renewal[]) => {
      const ofBatch = await this.renew(batch);
      batch.forEach((renewal, i) => replies.set(renewal, ofBatch[i] as RenewalReply));
    };
    await Promise.all(this.batchesOf(renewals).map(renewBatch));
    return renewals.map((renewal) => replies.get(renewal) as RenewalReply);
  }

  private batchesOf(renewals: readonly Renewal[]): readonly (readonly Renewal[])[] {
    const isPlain = ({ claim }: Renewal) => claim.kind === 'lock' && !this.context.isCluster;
    const plain = renewals.filter(isPlain);
    const batches = renewals.filter((renewal) => !isPlain(renewal)).map((renewal) => [renewal]);
    for (let i = 0; i < plain.length; i += MOST_AT_ONCE) batches.push(plain.slice(i, i + MOST_AT_ONCE));
    return batches;
  }

  private async renew(batch: readonly Renewal[]): Promise<Replies> {
    const { connection, context, owners } = this;
    const [first, another] = batch;
    try {
      const replies = await (first && !another
        ? connection.run(new RenewCommand(first, context, owners))
        : connection.run(new RenewAllCommand(batch, context, owners)));
      for (const { owner } of batch) owners.end(owner);
      return replies;
    } catch (error) {
      // A key that holds other data makes the whole batch fail. Sent one by one, only its own renewal is refused.
      const isSpoiled = another && error instanceof LockStoreError && error.reason === 'refused';
      const again = async (renewal: Renewal) =>
        isSpoiled && owners.isLatest(renewal) ? this.renew([renewal]) : this.unanswered(renewal, error);
      return (await Promise.all(batch.map(again))).flat();
    }
  }

  private unanswered({ owner }: Renewal, error: unknown): Replies {
    this.owners.end(owner);
    return [{ kind: 'unknown', error: error as LockStoreError }];
  }
}
