import { inBackground } from '../../async-context/in-background.js';
import type { Reading } from '../core/document.js';
import { HELD_POLL_MS } from '../../port/notice-time.js';
import type { Interest } from '../core/register.js';
import type { Clock } from '../../time/clock.js';

/** A waiter's document is read quickly after a change, then ever more slowly. For the k-th waiter it is k times as slowly. */
const FIRST_MS = { least: 2, most: 25, growth: 1.3 };
const SLOWEST_MS = 250;
/** Names with less than this part of their interval left are read with those that are due. */
const TOGETHER = 0.25;

/**
 * Reads the documents that this client depends on, if no notifications come from the database. One statement reads all
 * documents that are due, and one statement is under way at a time.
 */
export class Poller {
  private readonly names = new Map<string, Watched>();
  private isActive = true;
  private isReading = false;
  private cancel: (() => void) | undefined;
  private timerAt = Infinity;

  /**
   * @param read called for several names in one turn makes one statement of them
   * @param onReading gets each document that has changed
   */
  constructor(
    private readonly clock: Clock,
    private readonly read: (name: string) => Promise<Reading>,
    private readonly onReading: (name: string, reading: Reading) => void,
  ) {}

  watch(name: string, interest: Interest | undefined): void {
    if (interest === undefined) {
      this.names.delete(name);
      return;
    }
    const watched = this.names.get(name);
    const everyMs = quickest(interest);
    const dueAt = this.clock.now() + everyMs;
    if (watched) Object.assign(watched, { interest, everyMs, dueAt });
    else this.names.set(name, { interest, everyMs, dueAt });
    this.schedule();
  }

  /** Nothing is read while notifications arrive. */
  setActive(isActive: boolean): void {
    this.isActive = isActive;
    this.schedule();
  }

  close(): void {
    this.names.clear();
    this.setActive(false);
  }

  private schedule(): void {
    let next = Infinity;
    if (this.isActive && !this.isReading) {
      for (const { dueAt } of this.names.values()) next = Math.min(next, dueAt);
    }
    if (next === this.timerAt) return;
    this.cancel?.();
    this.timerAt = next;
    if (next === Infinity) return;
    this.cancel = this.clock.after(Math.max(0, next - this.clock.now()), () => {
      this.timerAt = Infinity;
      inBackground(this.readDue(), () => undefined);
    });
  }

  private async readDue(): Promise<void> {
    const now = this.clock.now();
    const due = [...this.names].filter(([, { dueAt, everyMs }]) => dueAt <= now + everyMs * TOGETHER);
    this.isReading = true;
    await Promise.all(due.map(([name, watched]) => this.readOne(name, watched)));
    this.isReading = false;
    this.schedule();
  }

  private async readOne(name: string, watched: Watched): Promise<void> {
    let hasChanged = false;
    try {
      const reading = await this.read(name);
      const seen = `${reading.order} ${reading.notesRead}`;
      hasChanged = watched.seen !== seen;
      watched.seen = seen;
      if (hasChanged && this.names.get(name) === watched) this.onReading(name, reading);
    } catch {
      // The next poll tries again. Callers learn of an outage by their own requests.
    }
    const { interest, everyMs } = watched;
    watched.everyMs = hasChanged ? quickest(interest) : slower(interest, everyMs);
    watched.dueAt = this.clock.now() + watched.everyMs;
  }
}

interface Watched {
  interest: Interest;
  everyMs: number;
  dueAt: number;
  /** Version and notes of the last reading. */
  seen?: string;
}

function quickest(interest: Interest): number {
  return interest === 'held' ? HELD_POLL_MS : Math.min(FIRST_MS.least * (interest + 1), SLOWEST_MS);
}

function slower(interest: Interest, everyMs: number): number {
  if (interest === 'held') return HELD_POLL_MS;
  return Math.min(everyMs * FIRST_MS.growth, FIRST_MS.most * (interest + 1), SLOWEST_MS);
}
