import { inBackground } from '../../async-context/in-background.js';
import { randomMs, type Chance } from '../../time/chance.js';
import type { Clock } from '../../time/clock.js';
import { Delays } from '../../time/delays.js';
import { FREE, isOver, type LockDocument, type Reading } from '../core/document.js';
import type { SqlDocuments } from './sql-documents.js';

/** Each process sweeps at its own random times. */
const SWEEP_MS = { least: 5 * 60_000, spread: 5 * 60_000 };
/** A document whose leases and tickets are over for this long belongs to crashed processes. */
const ABANDONED_MS = 60 * 60_000;
/** Rows of one request: fewer after one that failed, as on a slow disk. */
const SLICE_ROWS = { most: 1000, least: 10 };
/** A sweep that deletes a smaller part of its rows than this doubles the wait for the next one, up to eight times the usual. */
const LITTLE = 0.1;
const MAX_PATIENCE = 8;

/**
 * Keeps the table small: abandoned documents are freed, and rows that were free for long are deleted.
 *
 * A sweep goes through the table in order of names, a slice at a time, and rests after each slice as long as that took. It
 * has a connection of its own for that time, because a slow slice must not delay the requests of callers.
 */
export class TableSweeper {
  private readonly delays: Delays;
  private cancel = (): void => undefined;
  private documents: SqlDocuments | undefined;
  private isClosed = false;
  /** The next sweep goes on where this one has failed. */
  private after = '';
  private rows = SLICE_ROWS.most;
  private patience = 1;

  /** @param open connects for one sweep */
  constructor(
    private readonly context: { readonly clock: Clock; readonly chance: Chance },
    private readonly open: () => SqlDocuments,
  ) {
    this.delays = new Delays(context.clock);
    this.schedule();
  }

  close(): void {
    this.isClosed = true;
    this.cancel();
    this.delays.endAll();
    if (this.documents) inBackground(this.documents.close(), () => undefined);
  }

  private schedule(): void {
    if (this.isClosed) return;
    const { clock, chance } = this.context;
    // A sweep that fails is not repeated, because the next one does the same work.
    this.cancel = clock.after(randomMs(chance, SWEEP_MS) * this.patience, () =>
      inBackground(
        this.run().finally(() => this.schedule()),
        () => undefined,
      ),
    );
  }

  private async run(): Promise<void> {
    const documents = (this.documents = this.open());
    try {
      await this.sweep(documents);
    } finally {
      await documents.close();
    }
  }

  private async sweep(documents: SqlDocuments): Promise<void> {
    const seen = { rows: 0, free: 0 };
    do {
      const startedAt = this.context.clock.now();
      await this.sweepSlice(documents, seen);
      // At least a turn of the event loop: SQLite reads without one.
      await this.delays.wait(Math.max(1, this.context.clock.now() - startedAt));
    } while (this.after !== '' && !this.isClosed);
    const foundLittle = seen.rows > SLICE_ROWS.most && seen.free < seen.rows * LITTLE;
    this.patience = foundLittle ? Math.min(2 * this.patience, MAX_PATIENCE) : 1;
  }

  private async sweepSlice(documents: SqlDocuments, seen: { rows: number; free: number }): Promise<void> {
    const most = this.rows;
    this.rows = Math.max(Math.floor(most / 2), SLICE_ROWS.least);
    const { last = '', free, unwritten } = await documents.scan({ after: this.after, most });
    this.after = last;
    seen.rows += most;
    seen.free += free.length;
    await Promise.allSettled(unwritten.map((name) => this.freeAbandoned(documents, name)));
    // Another transaction may hold one of the rows. The slices after this one can be swept all the same.
    if (free.length === 0 || (await succeeds(documents.deleteFree(free)))) {
      this.rows = Math.min(2 * most, SLICE_ROWS.most);
    }
  }

  private async freeAbandoned(documents: SqlDocuments, name: string): Promise<void> {
    const expected = await documents.read(name);
    if (expected.version === undefined || !isAbandoned(expected)) return;
    await documents.replace(name, expected, FREE);
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

async function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  );
}
