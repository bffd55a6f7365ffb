import { clientsOf, leftOf } from '../../../../libs/distributed-lock/src/document/document.js';
import { parseDocument } from '../../../../libs/distributed-lock/src/document/json.js';
import {
  FREE_FOR_MS,
  type ScannedRow,
  UNWRITTEN_FOR_MS,
} from '../../../../libs/distributed-lock/src/sql/database.js';
import type { LockRow } from '../../../../libs/distributed-lock/src/sql/database.js';
import type { RowReply, WireSwap, WireTake } from './wire.js';

interface Row {
  readonly version: number;
  readonly state: string | null;
  readonly last: number;
  readonly at: number;
  readonly notes: string;
}

interface Change {
  readonly at: number;
  readonly name: string;
  readonly before: Row | undefined;
  readonly isDurable: boolean;
}

/** The lock table, as the statements of the SQL stores change it. A crash takes back what was not on the disk. */
export class Rows {
  private readonly rows = new Map<string, Row>();
  private readonly changes: Change[] = [];

  /** @param clock the server's time of day in ms @param notify tells a client of a row, where the server can */
  constructor(
    private readonly clock: () => number,
    private readonly notify: (client: string, name: string, row: LockRow) => void,
  ) {}

  take({ name, state, tokens, minToken, notes, until }: WireTake): RowReply {
    const isInTime = this.clock() <= until;
    const row = this.rows.get(name);
    const isDone = isInTime && (row?.state ?? null) === null;
    if (isDone) this.grant({ name, state, tokens, minToken }, row);
    else if (isInTime && row && notes.length > 0) {
      const added = notes.map((note) => `${note}${this.micros()}],`).join('');
      this.write(name, { ...row, notes: row.notes + added }, true);
      const { holders } = parseDocument({ ...row, lastToken: row.last }, name);
      this.tell(clientsOf(holders), name);
    }
    return { isDone, row: this.read(name) };
  }

  swap({
    name,
    version,
    notesRead,
    failOnUnreadNotes,
    state,
    last,
    notified,
    mayBeForgotten,
    until,
  }: WireSwap): RowReply {
    const row = this.rows.get(name);
    const isSeen = row?.version === version && (!failOnUnreadNotes || row?.notes.length === notesRead);
    const isDone = row !== undefined && isSeen && this.clock() <= until;
    if (isDone) {
      const notes = row.notes.slice(notesRead);
      this.write(name, { ...this.stamped(row), state, last, notes }, !mayBeForgotten);
      this.tell(notified, name);
    }
    return { isDone, row: this.read(name) };
  }

  read(name: string): LockRow {
    return { ...this.rows.get(name), now: this.micros() };
  }

  /** Some rows in order of their names. */
  scan(after: string, most: number): readonly ScannedRow[] {
    const names = [...this.rows.keys()].filter((name) => name > after).toSorted();
    return names.slice(0, most).map((name) => {
      const isHeld = !isFree(this.rows.get(name));
      const isOlder = this.isOlder(name, isHeld ? UNWRITTEN_FOR_MS : FREE_FOR_MS);
      return {
        name,
        held: Number(isHeld),
        free: Number(!isHeld && isOlder),
        unwritten: Number(isHeld && isOlder),
      };
    });
  }

  /** Those of the rows that were free for long. */
  deleteFree(names: readonly string[]): void {
    for (const name of names) {
      const before = this.rows.get(name);
      if (!before || !isFree(before) || !this.isOlder(name, FREE_FOR_MS)) continue;
      this.changes.push({ at: this.clock(), name, before, isDurable: true });
      this.rows.delete(name);
    }
  }

  names(): readonly string[] {
    return [...this.rows.keys()];
  }

  /** What came after the last write that was on the disk is gone. */
  crash(): void {
    while (this.changes.at(-1)?.isDurable === false) this.undo();
  }

  goBackTo(time: number): void {
    while ((this.changes.at(-1)?.at ?? -1) >= time) this.undo();
  }

  /** By owner, with the rest of each lease in ms of the server. */
  holdersOf(name: string): ReadonlyMap<string, number> {
    const row = this.rows.get(name);
    if (!row) return new Map();
    const { holders } = parseDocument({ ...row, lastToken: row.last }, name);
    const now = this.clock();
    return new Map(holders.map(({ owner, until }) => [owner, leftOf(until, now)]));
  }

  /** Names of rows that somebody holds or waits for, by the server's time. */
  inUse(): readonly string[] {
    const now = this.clock();
    return [...this.rows].flatMap(([name, row]) => {
      const { holders, queue } = parseDocument({ ...row, lastToken: row.last }, name);
      const isUsed = [...holders, ...queue].some(({ until }) => typeof until === 'number' && until > now);
      return isUsed ? `${name}: ${row.state} ${row.notes}` : [];
    });
  }

  private grant(
    { name, state, tokens, minToken }: Pick<WireTake, 'name' | 'state' | 'tokens' | 'minToken'>,
    row: Row | undefined,
  ): void {
    const last = Math.max(row?.last ?? 0, minToken, this.micros()) + tokens;
    this.write(name, { ...this.stamped(row), state, last, notes: '' }, true);
  }

  /** Versions of a name only grow. */
  private stamped(row: Row | undefined): Pick<Row, 'version' | 'at'> {
    const at = this.micros();
    return { version: Math.max(at, (row?.version ?? 0) + 1), at };
  }

  private isOlder(name: string, ms: number): boolean {
    return (this.rows.get(name)?.at ?? Infinity) < this.micros() - ms * 1000;
  }

  private write(name: string, row: Row, isDurable: boolean): void {
    this.changes.push({ at: this.clock(), name, before: this.rows.get(name), isDurable });
    this.rows.set(name, row);
  }

  private undo(): void {
    const { name, before } = this.changes.pop() as Change;
    if (before) this.rows.set(name, before);
    else this.rows.delete(name);
  }

  private tell(clients: readonly string[], name: string): void {
    for (const client of clients) this.notify(client, name, this.read(name));
  }

  private micros(): number {
    return Math.floor(this.clock() * 1000);
  }
}

function isFree(row: Row | undefined): boolean {
  return (row?.state ?? null) === null;
}
