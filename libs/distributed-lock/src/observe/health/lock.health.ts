import { Inject, Injectable } from '@nestjs/common';
import type { HealthIndicatorResult } from '@nestjs/terminus';
import { minOf } from '../../common/collections.js';
import { getLockServiceToken } from '../../distributed-lock.tokens.js';
import type { LockEvent } from '../../lock/events/lock.events.js';
import type { LockService } from '../../lock/lock.service.js';

/** The key that the health check reads. It is never locked. */
const PROBE = 'nestjs-distributed-lock:probe';

/**
 * A health indicator for Terminus. Reports "down" while the store does not answer, and while renewals of a held lock get no
 * reply.
 *
 * Use it for readiness, not for liveness: a restart would give up locks that would survive the outage of the store. The result
 * contains no keys and no holders, and only with `details` servers and clients. In a cluster it reads one key, so it checks the
 * one node that has the key's slot.
 *
 * For a registration with a name: `new LockHealthIndicator(locks)` in a `useFactory`.
 */
@Injectable()
export class LockHealthIndicator {
  /** The held locks whose last renewal got no reply: owner and key → when the lock stops being valid. */
  private readonly suspended = new Map<string, number>();
  /**
   * How many calls hold each lock, by owner and key. Several readers of one process share one lease, and the entry goes with the
   * last of them.
   */
  private readonly holders = new Map<string, number>();

  private readonly leaders = new KnownLeaders();

  constructor(@Inject(getLockServiceToken()) private readonly locks: LockService) {
    locks.events$.subscribe((event) => this.onEvent(event));
  }

  /**
   * Checks the store and the held locks. Never rejects, and takes no longer than the timeout of one command.
   *
   * @param name the name in the result of Terminus
   * @param options `details` adds the error of the store, with hosts, ports and clients. It also adds `leaders`: for each
   * election in which this instance takes part, whether it leads and since when, or which owner does. Only for a page that is not
   * public.
   */
  async check<const Name extends string = 'locks'>(
    name = 'locks' as Name,
    { details = false }: { readonly details?: boolean } = {},
  ): Promise<HealthIndicatorResult<Name>> {
    const [storeProblem, leaders] = await Promise.all([
      this.storeProblem(details),
      details && !this.leaders.isEmpty ? this.leaders.describe(this.locks) : undefined,
    ]);
    const problems = [storeProblem, this.renewalProblem()].filter((it) => it !== undefined);
    const status =
      problems.length === 0
        ? { status: 'up' as const }
        : { status: 'down' as const, message: problems.join(' ') };
    return { [name]: { ...status, ...(leaders && { leaders }) } } as HealthIndicatorResult<Name>;
  }

  private onEvent(event: LockEvent): void {
    this.leaders.onEvent(event);
    switch (event.type) {
      case 'acquired':
        return this.onAcquired(leaseOf(event));
      case 'released':
      case 'lost':
        return this.onEnded(leaseOf(event));
      case 'suspended':
        this.suspended.set(leaseOf(event), this.now + event.validForMs);
        return;
      case 'resumed':
        this.suspended.delete(leaseOf(event));
        return;
      case 'asked':
      case 'abandoned':
      case 'contended':
      case 'takeover':
      case 'forced':
      case 'candidate':
      case 'elected':
      case 'demoted':
      case 'opened':
      case 'store':
      case 'warning':
      case 'error':
        return;
      default:
        event satisfies never;
    }
  }

  private onAcquired(lease: string): void {
    this.holders.set(lease, (this.holders.get(lease) ?? 0) + 1);
  }

  private onEnded(lease: string): void {
    const others = (this.holders.get(lease) ?? 1) - 1;
    if (others > 0) {
      this.holders.set(lease, others);
      return;
    }
    this.holders.delete(lease);
    this.suspended.delete(lease);
  }

  private async storeProblem(details: boolean): Promise<string | undefined> {
    try {
      await this.locks.inspect(PROBE);
      return undefined;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return `The store of the locks does not answer${details ? `: ${why}` : ''}.`;
    }
  }

  private renewalProblem(): string | undefined {
    // A suspended lock may expire while no call holds it, and then no event says so. Remove it here.
    for (const [id, until] of this.suspended) if (until <= this.now) this.suspended.delete(id);
    const { size } = this.suspended;
    if (size === 0) return undefined;
    const ms = Math.round(minOf(this.suspended.values()) - this.now);
    return `${size} held ${size === 1 ? 'lock is' : 'locks are'} not renewed; the first is lost in ${ms} ms.`;
  }

  private get now(): number {
    return this.locks.options.clock.now();
  }
}

function leaseOf({ owner, key }: { readonly owner: string; readonly key: string }): string {
  return `${owner} ${key}`;
}

/** The elections in which this instance takes part, by name, and whether it leads. */
class KnownLeaders {
  private readonly byName = new Map<string, { readonly key: string; readonly since: Date | undefined }>();

  get isEmpty(): boolean {
    return this.byName.size === 0;
  }

  onEvent(event: LockEvent): void {
    if (event.type !== 'candidate' && event.type !== 'elected' && event.type !== 'demoted') return;
    const since = event.type === 'elected' ? event.since : undefined;
    this.byName.set(event.name, { key: event.key, since });
  }

  /** Returns the state of each election. Asks the store who leads those that this instance does not lead. Never rejects. */
  async describe(locks: LockService): Promise<Readonly<Record<string, LeaderState>>> {
    const states = [...this.byName].map(async ([name, { key, since }]): Promise<[string, LeaderState]> => {
      if (since) return [name, { isLeader: true, since }];
      const snapshot = await locks.inspect(key).catch(() => null);
      const holder = snapshot?.holders[0];
      return [name, holder === undefined ? { isLeader: false } : { isLeader: false, holder }];
    });
    return Object.fromEntries(await Promise.all(states));
  }
}

interface LeaderState {
  readonly isLeader: boolean;
  readonly since?: Date;
  /** The owner that leads, if it is another instance. Left out if nobody leads or the store does not answer. */
  readonly holder?: string;
}
