import type { Clock } from '../../time/clock.js';
import {
  UNCONFIRMED_MS,
  type Holder,
  type LockDocument,
  type StoredNote,
  type Waiter,
} from '../document/document.js';

/** A session that was alive counts as alive for so long without being asked for again, in ms. */
const ALIVE_MS = 1000;
/** So many sessions, and so many grants, are remembered. The oldest are forgotten, and asked for again. */
const MOST_REMEMBERED = 10_000;

/** What one client knows about the sessions of the others, and since when it has seen grants that nobody has confirmed. */
export class SessionKnowledge {
  private readonly ended = new Set<string>();
  private readonly aliveAt = new Map<string, number>();
  /** By owner. */
  private readonly unconfirmedSince = new Map<string, number>();

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

  /** The sessions of a document that must be asked for. */
  unknownIn({ holders, queue }: LockDocument, notes: readonly StoredNote[]): readonly string[] {
    const since = this.clock.now() - ALIVE_MS;
    const sessions = [...holders, ...queue, ...notes].flatMap(({ session }) => session ?? []);
    return [...new Set(sessions)].filter(
      (session) => !this.ended.has(session) && (this.aliveAt.get(session) ?? -Infinity) <= since,
    );
  }

  /** The document without what is known to be over: its time is past. */
  judge({ holders, queue }: LockDocument): LockDocument {
    return {
      holders: holders.map((holder) => (this.isOver(holder) ? { ...holder, until: -Infinity } : holder)),
      queue: queue.map((waiter) => (this.hasEnded(waiter) ? { ...waiter, until: -Infinity } : waiter)),
    };
  }

  hasEnded({ session }: Pick<Waiter, 'session'>): boolean {
    return session !== undefined && this.ended.has(session);
  }

  private isOver(holder: Holder): boolean {
    if (this.hasEnded(holder)) return true;
    const { owner, isUnconfirmed } = holder;
    if (!isUnconfirmed) return this.forgetGrant(owner);
    const now = this.clock.now();
    const since = this.unconfirmedSince.get(owner);
    if (since !== undefined) return now - since >= UNCONFIRMED_MS;
    this.unconfirmedSince.set(owner, now);
    forgetOldest(this.unconfirmedSince);
    return false;
  }

  private forgetGrant(owner: string): false {
    this.unconfirmedSince.delete(owner);
    return false;
  }
}

function forgetOldest(entries: {
  readonly size: number;
  keys(): Iterator<string>;
  delete(key: string): boolean;
}): void {
  if (entries.size <= MOST_REMEMBERED) return;
  const oldest = entries.keys().next();
  if (!oldest.done) entries.delete(oldest.value);
}
