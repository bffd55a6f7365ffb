import {
  documentIn,
  documentText,
  notesIn,
  noteText,
  takenText,
  type Row,
} from '../../libs/distributed-lock/src/stores/core/document-text.js';
import { clientsOf } from '../../libs/distributed-lock/src/stores/core/document.js';
import type { Reading } from '../../libs/distributed-lock/src/stores/core/reading.js';
import type {
  NotFree,
  Swap,
  SwapReply,
  Take,
  TakeReply,
} from '../../libs/distributed-lock/src/stores/core/register.js';

interface StoredRow extends Row {
  readonly version: number;
}

type Later<Reply> = () => Reply;

/**
 * The rows of a table as the statements of a SQL register change them. Each call is one statement. What it returns is
 * parsed by the client, when the reply arrives.
 */
export class RegisterRows {
  private readonly rows = new Map<string, StoredRow>();
  private lastVersion = 0;
  private lastNoteAt = 0;

  constructor(
    private readonly micros: () => number,
    private readonly tell: (client: string, name: string, parse: Later<Reading>) => void,
  ) {}

  /** The server's time in ms. */
  get now(): number {
    return this.micros() / 1000;
  }

  take({ name, request, minToken, notes }: Take): Later<TakeReply> {
    const row = this.rows.get(name);
    const at = this.micros();
    if (!row || row.state === null) {
      const lastToken = Math.max(at, row?.lastToken ?? 0, minToken) + request.tokens;
      this.put(name, { state: takenText(request), notes: '', lastToken, at });
      return this.reply(name, (reading) => ({ isTaken: true, reading }));
    }
    if (notes.length > 0) {
      const added = notes.map((note) => `${noteText(note)}${this.noteAt()}],`).join('');
      this.rows.set(name, { ...row, notes: row.notes + added });
      this.tellAll(clientsOf(this.read(name)().document.holders), name);
    }
    return this.reply(name, (reading) => ({ isTaken: false, reading }));
  }

  takeAll(takes: readonly Take[]): Later<readonly Reading[] | NotFree> {
    const index = takes.findIndex(({ name }) => (this.rows.get(name)?.state ?? null) !== null);
    const inTheWay = takes[index];
    if (inTheWay) return this.reply(inTheWay.name, (reading) => ({ index, reading }));
    const replies = takes.map((take) => this.take(take));
    return () => replies.map((parse) => parse().reading);
  }

  swap({ name, expected, next, lastToken, isExact, notified }: Swap): Later<SwapReply> {
    const row = this.rows.get(name);
    const isSeen = row !== undefined && row.version === expected.version;
    if (!isSeen || (isExact && row.notes.length !== expected.notesRead))
      return this.reply(name, (reading) => ({ isSwapped: false, reading }));
    const notes = row.notes.slice(expected.notesRead);
    this.put(name, { state: documentText(next), notes, lastToken, at: this.micros() });
    this.tellAll(notified, name);
    return this.reply(name, (reading) => ({ isSwapped: true, reading }));
  }

  read(name: string): Later<Reading> {
    return this.reply(name, (reading) => reading);
  }

  /** As another client would that writes back what it has seen: the document is the same, its version is not. */
  rewrite(name: string): void {
    const row = this.rows.get(name);
    if (!row) return;
    const { document } = this.read(name)();
    this.put(name, { ...row, state: documentText(document) });
  }

  /** Deletes the free rows, as a sweep does once their last tokens are older than the clock. */
  sweep(): void {
    const now = this.micros();
    for (const [name, { state, lastToken }] of this.rows) {
      if (state !== null || lastToken > now) continue;
      this.rows.delete(name);
      this.lastVersion += 1;
    }
  }

  /** Each once, so that two notes have two tickets also while the clock stands still. */
  private noteAt(): number {
    return (this.lastNoteAt = Math.max(this.lastNoteAt + 1, this.micros()));
  }

  private put(name: string, row: Row): void {
    this.rows.set(name, { ...row, version: ++this.lastVersion });
  }

  private tellAll(clients: readonly string[], name: string): void {
    for (const client of clients) this.tell(client, name, this.read(name));
  }

  private reply<Reply>(name: string, replyOf: (reading: Reading) => Reply): Later<Reply> {
    const { now } = this;
    const row = this.rows.get(name);
    const order = row?.version ?? this.lastVersion;
    return () => replyOf(readingOf(name, row, now, order));
  }
}

function readingOf(name: string, row: StoredRow | undefined, now: number, order: number): Reading {
  const { state, notes, lastToken, at } = row ?? { state: null, notes: '', lastToken: 0, at: 0 };
  return {
    version: row?.version,
    order,
    document: documentIn({ state, notes, lastToken, at }, name),
    notes: notesIn({ state, notes, lastToken, at }, 'a row'),
    notesRead: notes.length,
    lastToken,
    ticks: Math.floor(now * 1000),
    nextTicket: Math.floor(now * 1000),
    now,
  };
}
