import { leadOf, type Clock } from '../../time/clock.js';
import type { Row } from '../session/session-backend.js';
import { isFreeText } from '../session/session-text.js';

/** So many are remembered. The oldest are forgotten, and read again. */
const MOST_REMEMBERED = 10_000;
/**
 * A version is believed for so long, in ms. A znode that was deleted and made again counts its versions from the start. The
 * sweeper deletes no document that was written within twice this time.
 */
export const BELIEVED_MS = 5 * 60_000;

interface KnownRow extends Pick<Row, 'version' | 'notesRead' | 'nextTicket'> {
  /** Nobody holds, waits, or has left a note. */
  readonly isFree: boolean;
  /** Our time of the reading. */
  readonly since: number;
}

/** The rows as this client has seen them last. */
export class KnownRows {
  private readonly rows = new Map<string, KnownRow>();

  constructor(private readonly clock: Clock) {}

  get(name: string): KnownRow | undefined {
    return this.isOld(name) ? undefined : this.rows.get(name);
  }

  /** The row was seen too long ago to be believed. */
  isOld(name: string): boolean {
    const row = this.rows.get(name);
    return row !== undefined && row.since <= this.now() - BELIEVED_MS;
  }

  see({ name, version, text, notes, notesRead, nextTicket }: Row): void {
    this.rows.delete(name);
    const isFree = notes.length === 0 && (text === null || isFreeText(text));
    this.rows.set(name, {
      version,
      notesRead,
      ...(nextTicket !== undefined && { nextTicket }),
      isFree,
      since: this.now(),
    });
    if (this.rows.size <= MOST_REMEMBERED) return;
    const oldest = this.rows.keys().next();
    if (!oldest.done) this.rows.delete(oldest.value);
  }

  /** Counts a suspend of the machine, which `leadOf` finds out about. */
  private now(): number {
    leadOf(this.clock);
    return this.clock.now();
  }
}
