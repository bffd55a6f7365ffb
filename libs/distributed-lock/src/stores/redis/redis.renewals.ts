import { LockStoreError } from '../../lock/lock.errors.js';
import type { Renewal, RenewalReply } from '../../lock/lock-store.js';
import { leaseValidity } from '../../lock/validity.js';
import type { RedisCommands } from './redis.commands.js';
import { unknown } from './redis.errors.js';
import { renewAllScript, renewScript } from './redis.scripts.js';
import { permitsOf, weightOf, type RedisSession } from './redis.session.js';

/** Redis does nothing else while a script runs: more at once would hold up those who wait for a lock. */
const MOST_AT_ONCE = 50;

type Replies = readonly RenewalReply[];

/** Restarts leases: plain locks of one server in batches, all others one by one. */
export class RedisRenewals {
  /** The last of each owner that is under way: an earlier one that is sent again must not come after it. */
  private readonly latest = new Map<string, Renewal>();

  constructor(
    private readonly commands: RedisCommands,
    private readonly session: RedisSession,
  ) {}

  async run(renewals: readonly Renewal[]): Promise<Replies> {
    for (const renewal of renewals) this.latest.set(renewal.owner, renewal);
    try {
      return await this.inBatches(renewals);
    } finally {
      for (const renewal of renewals) if (this.isLatest(renewal)) this.latest.delete(renewal.owner);
    }
  }

  private isLatest(renewal: Renewal): boolean {
    return this.latest.get(renewal.owner) === renewal;
  }

  private async inBatches(renewals: readonly Renewal[]): Promise<Replies> {
    const isPlain = ({ claim }: Renewal) => claim.kind === 'lock' && !this.session.isCluster;
    const plain = renewals.filter(isPlain);
    if (plain.length < 2) return Promise.all(renewals.map((renewal) => this.one(renewal)));
    const batches: Promise<Replies>[] = [];
    for (let i = 0; i < plain.length; i += MOST_AT_ONCE)
      batches.push(this.many(plain.slice(i, i + MOST_AT_ONCE)));
    const others = renewals.filter((renewal) => !isPlain(renewal)).map((renewal) => this.one(renewal));
    const [plainReplies, otherReplies] = await Promise.all([Promise.all(batches), Promise.all(others)]);
    const [inBatches, alone] = [plainReplies.flat().values(), otherReplies.values()];
    return renewals.map((renewal) => (isPlain(renewal) ? inBatches : alone).next().value as RenewalReply);
  }

  private async one(renewal: Renewal): Promise<RenewalReply> {
    try {
      const reply = await this.oneOnce(renewal);
      if (reply) return reply;
      return (this.isLatest(renewal) && (await this.oneOnce(renewal))) || this.late(renewal.key);
    } catch (error) {
      return { kind: 'unknown', error: error as LockStoreError };
    }
  }

  private async many(renewals: readonly Renewal[]): Promise<Replies> {
    const isLatest = (renewal: Renewal) => this.isLatest(renewal);
    try {
      const replies = await this.manyOnce(renewals);
      if (replies) return replies;
      return (
        (renewals.every(isLatest) && (await this.manyOnce(renewals))) || this.late(renewals[0]?.key ?? '')
      );
    } catch (error) {
      const unknown: RenewalReply = { kind: 'unknown', error: error as LockStoreError };
      // A key that holds something else spoils the batch: it alone is to be told so.
      const isSpoiled = error instanceof LockStoreError && error.reason === 'refused';
      return Promise.all(renewals.map(async (it) => (isSpoiled && isLatest(it) ? this.one(it) : unknown)));
    }
  }

  /** @returns `undefined` when the server found it too late */
  private oneOnce(renewal: Renewal): Promise<RenewalReply | undefined> {
    const { key, owner, claim, leaseMs, token, lastToken } = renewal;
    const { kind } = claim;
    const args = () => {
      const { publish, floor, cluster } = this.session;
      const counted = [kind, weightOf(claim), permitsOf(claim), floor, cluster];
      return [owner, leaseMs, token, lastToken, publish, this.session.notAfter(), ...counted];
    };
    return this.commands.run(renewScript, {
      urgency: 'renew',
      key,
      kind,
      args,
      read(reply, sentAt) {
        if (reply[0] === 2) return undefined;
        return reply[0] === 0 ? { kind: 'lost' } : renewed(renewal, sentAt, reply[2]);
      },
    });
  }

  /** @returns `undefined` when the server found it too late */
  private manyOnce(renewals: readonly Renewal[]): Promise<Replies | undefined> {
    const { key = '' } = renewals[0] ?? {};
    const keys = renewals.flatMap((renewal) => this.commands.keysOf(renewal.key, 'lock'));
    const args = () => {
      const each = renewals.flatMap(({ owner, leaseMs, token, lastToken }) => [
        owner,
        leaseMs,
        token,
        lastToken,
      ]);
      return [this.session.publish, this.session.notAfter(), ...each];
    };
    return this.commands.run(renewAllScript, {
      urgency: 'renew',
      key,
      kind: 'lock',
      keys,
      args,
      read(reply, sentAt): Replies | undefined {
        if (reply[0] === 0) return undefined;
        const [, , ...waiting] = reply;
        return renewals.map((renewal, i) => {
          const others = waiting[i] ?? -1;
          return others < 0 ? { kind: 'lost' } : renewed(renewal, sentAt, others);
        });
      },
    });
  }

  private late(key: string): never {
    throw unknown('it found two requests in a row too late, by its own clock', key);
  }
}

function renewed({ leaseMs }: Renewal, sentAt: number, waiting: number): RenewalReply {
  return { kind: 'renewed', validUntil: leaseValidity(sentAt, leaseMs), waiting };
}
