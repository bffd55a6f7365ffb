import { LockStoreError } from '../../../port/lock.errors.js';
import type { Renewal, RenewalReply } from '../../../port/lock-store.js';
import { leaseValidity } from '../../../port/lease-validity.js';
import { WireKeys } from '../scripts/evalsha.js';
import type { ScriptRunner } from '../scripts/script-runner.js';
import { EXPIRED } from '../connection/redis.command.js';
import { unknown } from '../connection/redis.errors.js';
import { renewAllScript, renewScript } from '../scripts/scripts.js';
import { permitsOf, weightOf, type ScriptContext } from '../scripts/script-context.js';

/** Redis does nothing else while a script runs: more at once would hold up those who wait for a lock. */
const MOST_AT_ONCE = 50;

type Replies = readonly RenewalReply[];

/** Restarts leases: plain locks of one server in batches, all others one by one. */
export class Renewals {
  /** The last of each owner that is under way: an earlier one that is sent again must not come after it. */
  private readonly latest = new Map<string, Renewal>();

  constructor(
    private readonly commands: ScriptRunner,
    private readonly session: ScriptContext,
  ) {}

  /** A single one, which may keep a caller from starting, is not made to wait by what only several need. */
  run(renewals: readonly Renewal[]): Promise<Replies> {
    for (const renewal of renewals) this.latest.set(renewal.owner, renewal);
    const [first, another] = renewals;
    return first && !another ? this.one(first) : this.inBatches(renewals);
  }

  private isLatest(renewal: Renewal): boolean {
    return this.latest.get(renewal.owner) === renewal;
  }

  private async inBatches(renewals: readonly Renewal[]): Promise<Replies> {
    const isPlain = ({ claim }: Renewal) => claim.kind === 'lock' && !this.session.isCluster;
    const plain = renewals.filter(isPlain);
    if (plain.length < 2) return (await Promise.all(renewals.map((renewal) => this.one(renewal)))).flat();
    const batches: Promise<Replies>[] = [];
    for (let i = 0; i < plain.length; i += MOST_AT_ONCE)
      batches.push(this.many(plain.slice(i, i + MOST_AT_ONCE)));
    const others = renewals.filter((renewal) => !isPlain(renewal)).map((renewal) => this.one(renewal));
    const [plainReplies, otherReplies] = await Promise.all([Promise.all(batches), Promise.all(others)]);
    const [inBatches, alone] = [plainReplies.flat().values(), otherReplies.flat().values()];
    return renewals.map((renewal) => (isPlain(renewal) ? inBatches : alone).next().value as RenewalReply);
  }

  private one(renewal: Renewal): Promise<Replies> {
    return this.renewOne(renewal).then(
      (reply) => [this.onReply(renewal, reply)],
      (error: unknown) => [this.onReply(renewal, unanswered(error))],
    );
  }

  private many(renewals: readonly Renewal[]): Promise<Replies> {
    return this.renewMany(renewals).then(
      (replies) => replies.map((reply, i) => this.onReply(renewals[i] as Renewal, reply)),
      async (error: unknown) => {
        // A key that holds something else spoils the batch: it alone is to be told so.
        const isSpoiled = error instanceof LockStoreError && error.reason === 'refused';
        const alone = async (renewal: Renewal) =>
          isSpoiled && this.isLatest(renewal)
            ? this.one(renewal)
            : [this.onReply(renewal, unanswered(error))];
        return (await Promise.all(renewals.map(alone))).flat();
      },
    );
  }

  private onReply(renewal: Renewal, reply: RenewalReply): RenewalReply {
    if (this.isLatest(renewal)) this.latest.delete(renewal.owner);
    return reply;
  }

  private renewOne(renewal: Renewal): Promise<RenewalReply> {
    const { key, owner, claim, leaseMs, token, lastToken } = renewal;
    const { kind } = claim;
    const checkLate = this.lateCheck([renewal]);
    return this.commands.run(renewScript, {
      urgency: 'renew',
      // It may confirm a push, whose caller is about to start and may block the event loop.
      isPressing: true,
      // The watchdog repeats its own.
      isRepeatable: renewal.isAwaited,
      key,
      kind,
      args: () => {
        checkLate();
        const { publish, minToken: floor, cluster } = this.session;
        const counted = [kind, weightOf(claim), permitsOf(claim), floor, cluster];
        return [owner, leaseMs, token, lastToken, publish, this.session.notAfter(), ...counted];
      },
      read(reply, sentAt) {
        if (reply[0] === 2) return EXPIRED;
        return reply[0] === 0 ? { kind: 'lost' } : renewed(renewal, sentAt, reply[2]);
      },
    });
  }

  private renewMany(renewals: readonly Renewal[]): Promise<Replies> {
    const { key = '' } = renewals[0] ?? {};
    const checkLate = this.lateCheck(renewals);
    const one = ({ owner, leaseMs, token, lastToken }: Renewal) => [owner, leaseMs, token, lastToken];
    return this.commands.run(renewAllScript, {
      urgency: 'renew',
      key,
      kind: 'lock',
      keys: new WireKeys(renewals.flatMap((renewal) => this.commands.namesOf(renewal.key, 'lock'))),
      args: () => {
        checkLate();
        return [this.session.publish, this.session.notAfter(), ...renewals.flatMap(one)];
      },
      read(reply, sentAt) {
        if (reply[0] === 0) return EXPIRED;
        const [, , ...waiting] = reply;
        return renewals.map((renewal, i) => {
          const others = waiting[i] ?? -1;
          return others < 0 ? { kind: 'lost' } : renewed(renewal, sentAt, others);
        });
      },
    });
  }

  /** @returns to be called at each writing: from the second on, none of them may come after a newer one */
  private lateCheck(renewals: readonly Renewal[]): () => void {
    let isFirst = true;
    return () => {
      const isStale = !isFirst && !renewals.every((renewal) => this.isLatest(renewal));
      isFirst = false;
      if (isStale) throw unknown('it found a renewal too late that a newer one follows', renewals[0]?.key);
    };
  }
}

function unanswered(error: unknown): RenewalReply {
  return { kind: 'unknown', error: error as LockStoreError };
}

function renewed({ leaseMs }: Renewal, sentAt: number, waiting: number): RenewalReply {
  return { kind: 'renewed', validUntil: leaseValidity(sentAt, leaseMs), waiting };
}
