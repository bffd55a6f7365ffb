import { inBackground } from '../../async/in-background.js';
import type { Clock } from '../../time/clock.js';
import { FREE, isOver, type LockDocument } from '../document/document.js';
import type { Reading, Register } from '../document/register.js';

/** Each process sweeps at its own random times. */
const SWEEP_MS = { least: 5 * 60_000, spread: 5 * 60_000 };
/** A document whose leases and tickets are over for this long belongs to crashed processes. */
const ABANDONED_MS = 60 * 60_000;

/** Keeps the table small: abandoned documents are freed, and rows that were free for long are deleted. */
export class Sweeper {
  private cancel = (): void => undefined;
  /** The sweeps go through the table in order of names, some documents at a time. */
  private after = '';

  /** @param sweep deletes rows that were free for long. Replies with names after `after` that nobody has written for long */
  constructor(
    private readonly clock: Clock,
    private readonly register: Register,
    private readonly sweep: (after: string) => Promise<readonly string[]>,
  ) {
    this.schedule();
  }

  close(): void {
    this.cancel();
  }

  private schedule(): void {
    this.cancel = this.clock.after(SWEEP_MS.least + Math.random() * SWEEP_MS.spread, () => {
      this.schedule();
      // The next sweep does what this one could not.
      inBackground(this.run(), () => undefined);
    });
  }

  private async run(): Promise<void> {
    const names = await this.sweep(this.after);
    this.after = names.at(-1) ?? '';
    for (const name of names) await this.freeAbandoned(name);
  }

  private async freeAbandoned(name: string): Promise<void> {
    const seen = await this.register.read(name);
    if (seen.version === undefined || !isAbandoned(seen)) return;
    await this.register.swap({
      name,
      seen,
      next: FREE,
      lastToken: seen.lastToken,
      isExact: true,
      told: [],
      mayBeForgotten: true,
      notAfter: () => Math.ceil(seen.now + this.register.commandTimeoutMs),
    });
  }
}

function isAbandoned({ document, notes, now }: Reading): boolean {
  const limit = now - ABANDONED_MS;
  const { holders, queue }: LockDocument = document;
  return (
    [...holders, ...queue].every(({ until }) => isOver(until, limit)) &&
    notes.every(({ at }) => at / 1000 <= limit)
  );
}
