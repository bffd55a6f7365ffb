import type { Clock } from '../../time/clock.js';
import {
  UNCONFIRMED_MS,
  type Holder,
  type LockDocument,
  type StoredNote,
  type StoredWaiter,
} from '../core/document.js';

/** How long, in ms, a session that was alive counts as alive before the client asks again. */
export const ALIVE_MS = 1000;
/** How many sessions, grants and documents are remembered, each. The client asks again for those that it has forgotten. */
const MAX_REMEMBERED = 10_000;

/** Which sessions are over, and since when this client has seen a grant that its owner has not confirmed. */
export class SessionKnowledge {
  private readonly ended = new Set<string>();
  private readonly aliveAt = new Map<string, number>();
  /** The grants that their owners have not confirmed yet, by owner. */
  private readonly unconfirmed = new Map<string, SeenGrant>();

  constructor(private readonly clock: Clock) {}

  onEnd(session: string): void {
    this.ended.add(session);
    this.aliveAt.delete(session);
    forgetOldest(this.ended);
  }

  onAlive(session: string): void {
    this.aliveAt.delete(session);
    this.aliveAt.set(session, this.clock.now());
    forgetOldest(this.aliveAt);
  }

  /** The sessions in a document of which this client does not know whether they are over. */
  unknownIn({ holders, queue }: LockDocument, notes: readonly StoredNote[]): readonly string[] {
    const since = this.clock.now() - ALIVE_MS;
    const sessions = [...holders, ...queue, ...notes].flatMap(({ session }) => session ?? []);
    return [...new Set(sessions)].filter(
      (session) => !this.ended.has(session) && (this.aliveAt.get(session) ?? -Infinity) <= since,
    );
  }

  /** The document as this client judges it: entries of sessions that are over have expired. */
  judge({ holders, queue }: LockDocument): LockDocument {
    return {
      holders: holders.map((holder) => this.judgeHolder(holder)),
      queue: queue.map((waiter) => (this.hasEnded(waiter) ? { ...waiter, until: -Infinity } : waiter)),
    };
  }

  hasEnded({ session }: Pick<StoredWaiter, 'session'>): boolean {
    return session !== undefined && this.ended.has(session);
  }

  /** The lease of an unconfirmed grant is the time left to confirm it, so that the waiters recheck when that is over. */
  private judgeHolder(holder: Holder): Holder {
    if (this.hasEnded(holder)) return { ...holder, until: -Infinity };
    if (!holder.isUnconfirmed) {
      this.unconfirmed.delete(holder.owner);
      return holder;
    }
    const leftMs = this.sinceOf(holder) + UNCONFIRMED_MS - this.clock.now();
    return leftMs > 0 ? { ...holder, leaseMs: Math.ceil(leftMs) } : { ...holder, until: -Infinity };
  }

  /** An owner whose grant was taken back may be granted the lock again, with another token. */
  private sinceOf({ owner, token }: Holder): number {
    const seen = this.unconfirmed.get(owner);
    if (seen?.token === token) return seen.since;
    const since = this.clock.now();
    this.unconfirmed.delete(owner);
    this.unconfirmed.set(owner, { token, since });
    forgetOldest(this.unconfirmed);
    return since;
  }
}

interface SeenGrant {
  readonly token: number;
  readonly since: number;
}

/** Keeps the entries that were set last. */
export function forgetOldest(entries: Map<string, unknown> | Set<string>): void {
  if (entries.size <= MAX_REMEMBERED) return;
  const [oldest] = entries.keys();
  if (oldest !== undefined) entries.delete(oldest);
}
