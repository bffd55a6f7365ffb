import { describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-distributed-lock/testing';
import { systemChance } from '../../libs/distributed-lock/src/common/clock.js';
import type { LockDocument, Note, StoredWaiter } from '../../libs/distributed-lock/src/document/document.js';
import {
  serializeDocument,
  serializeFirstGrant,
  serializeNote,
} from '../../libs/distributed-lock/src/document/json.js';
import { LOCK } from '../../libs/distributed-lock/src/port/lock-store.js';
import { FREE_FOR_MS, readingOf, UNWRITTEN_FOR_MS } from '../../libs/distributed-lock/src/sql/database.js';
import { LockTable } from '../../libs/distributed-lock/src/sql/lock-table.js';
import { SqlRegister } from '../../libs/distributed-lock/src/sql/register.js';
import { SqlTable } from './sql-table.js';

const MINUTE_MS = 60_000;
/** A process sweeps for the first time five to ten minutes after its start. */
const FIRST_SWEEP_MS = 10 * MINUTE_MS;
const KEY = 'k';
const OWNER = { owner: 'gone:1', claim: LOCK };
const WAITER = { ...OWNER, leaseMs: 1000, tokens: 1, minToken: 0, ticket: 1, nonce: 'n' };

/** A lock table at minute 0, and the processes that use it. */
class Stage {
  readonly clock = new ManualClock();
  readonly table = new SqlTable(this.clock);
  private readonly registers: SqlRegister[] = [];

  /** Writes the row as clients do that never come back. */
  write(document: LockDocument): void {
    const { rows } = this.table;
    this.take([]);
    const { version, notesRead } = readingOf(KEY, rows.read(KEY));
    const swap = {
      name: KEY,
      notified: [],
      failOnUnreadNotes: false,
      mayBeForgotten: false,
      until: Infinity,
    };
    rows.swap({ ...swap, version, notesRead, state: serializeDocument(document), last: 1 });
  }

  /** Grants a free lock, or stores the notes beside its document. */
  take(notes: readonly Note[]): void {
    const request = { ...OWNER, key: KEY, leaseMs: 1, mayWait: false, ticket: 0, tokens: 1 };
    const [state, texts] = [serializeFirstGrant(request), notes.map(serializeNote)];
    this.table.rows.take({ name: KEY, state, tokens: 1, minToken: 0, until: Infinity, notes: texts });
  }

  /** Starts a process, and lets its first sweep pass. */
  async sweep(): Promise<void> {
    const { clock, table } = this;
    const context = { clock, chance: systemChance, keyPrefix: '', watchdogTimeoutMs: 30_000 };
    const own = { clientId: 'sweeper', table: new LockTable('postgres', 'nest_lock'), commandTimeoutMs: 500 };
    this.registers.push(new SqlRegister(table, { ...context, ...own, access: 'create' }));
    await clock.advance(FIRST_SWEEP_MS + 100);
  }

  async close(): Promise<void> {
    await Promise.all(this.registers.map((register) => register.close()));
  }

  get row() {
    return this.table.rows.read(KEY);
  }
}

/** Lets the work run on a table, and ends its processes. */
async function onTable(work: (stage: Stage) => Promise<void>): Promise<void> {
  const stage = new Stage();
  await work(stage);
  await stage.close();
  expect(stage.clock.pendingTimers).toBe(0);
}

const holderUntil = (until: number): LockDocument => ({
  holders: [{ ...OWNER, token: 1, lastToken: 1, until }],
  queue: [],
});
const waiterUntil = (until: number): LockDocument => {
  const waiter: StoredWaiter = { ...WAITER, until };
  return { holders: [], queue: [waiter] };
};

describe('a sweep of a SQL table', () => {
  const LONG_AGO = UNWRITTEN_FOR_MS + FIRST_SWEEP_MS;

  it.each([
    ['a lease', holderUntil(1000)],
    ['a place in the queue', waiterUntil(1000)],
  ])('frees a document whose last entry, %s, ended an hour ago', (_, document) =>
    onTable(async (stage) => {
      stage.write(document);
      await stage.clock.advance(LONG_AGO);
      await stage.sweep();
      expect(stage.row.state).toBeNull();
    }),
  );

  it.each([
    ['a lease', holderUntil(LONG_AGO - MINUTE_MS)],
    ['a place in the queue', waiterUntil(LONG_AGO - MINUTE_MS)],
  ])('leaves a document alone although nobody has written it for an hour: %s ended later', (_, document) =>
    onTable(async (stage) => {
      stage.write(document);
      await stage.clock.advance(LONG_AGO);
      await stage.sweep();
      expect(stage.row.state).not.toBeNull();
    }),
  );

  it('leaves a document alone beside which a note was stored within the last hour', () =>
    onTable(async (stage) => {
      stage.write(holderUntil(1000));
      await stage.clock.advance(LONG_AGO - MINUTE_MS);
      stage.take([{ ...WAITER, owner: 'waits:1', ticket: 0, waitMs: 3000 }]);
      await stage.clock.advance(MINUTE_MS);
      await stage.sweep();
      expect(readingOf(KEY, stage.row).notes).toMatchObject([{ owner: 'waits:1' }]);
      expect(stage.row.state).not.toBeNull();
    }));

  it('deletes a document that was free for ten minutes, and no younger one', () =>
    onTable(async (stage) => {
      stage.write({ holders: [], queue: [] });
      await stage.sweep();
      expect(stage.row.version).toBeDefined();
      await stage.clock.advance(FREE_FOR_MS);
      await stage.sweep();
      expect(stage.row.version).toBeUndefined();
    }));
});
