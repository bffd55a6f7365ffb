import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { FREE, type LockDocument } from '../document/document.js';
import { LOCK } from '../port/lock-store.js';
import { ManualClock } from '../testing/manual-clock.js';
import type { StoredDocument } from './backend.js';
import { serializeSessionDocument } from './json.js';
import { SessionSweeper, SWEPT_AFTER_MS } from './register.js';

const MINUTE_MS = 60_000;
const NAMES = ['a', 'b', 'c'] as const;
const OWN = 's1';
const OTHER = 's2';
/** A session with a smaller id, whose client sweeps in the place of ours. */
const EARLIER = 's0';

/** One of these happens to a document or a session before the next sweep. */
const happenings = [
  'is used',
  'is held by another session',
  'is held by an ended session',
  'gets a note',
  'loses its notes',
  'has a token ahead of the revision',
  'an earlier session begins',
  'the earlier session ends',
  'some minutes pass',
  'a sweep',
  'a sweep',
] as const;

interface Happening {
  readonly what: (typeof happenings)[number];
  readonly name: (typeof NAMES)[number];
  readonly minutes: number;
}

interface Kept {
  document: LockDocument;
  lastToken: number;
  notes: number;
  writtenAt: number;
  /** When it was last written, by the clock. */
  changedAt: number;
}

/** The documents of a service, which notes each one that is deleted against the rules. */
class Shelf {
  readonly kept = new Map<string, Kept>();
  readonly wrong: string[] = [];
  readonly sessions = new Set([OWN, OTHER]);
  revision = 100;

  constructor(private readonly clock: ManualClock) {
    for (const name of NAMES) this.write(name, FREE);
  }

  write(name: string, document: LockDocument, ahead = 0): void {
    const writtenAt = ++this.revision;
    const lastToken = writtenAt + ahead;
    this.kept.set(name, { document, lastToken, notes: 0, writtenAt, changedAt: this.clock.now() });
  }

  setNotes(name: string, notes: number): void {
    const kept = this.kept.get(name);
    if (kept) kept.notes = notes;
  }

  async firstSession(): Promise<string | undefined> {
    return [...this.sessions].sort()[0];
  }

  async endedAmong(sessions: readonly string[]): Promise<readonly string[]> {
    return sessions.filter((id) => !this.sessions.has(id));
  }

  async list(): Promise<{ readonly names: readonly string[]; readonly after: undefined }> {
    return { names: [...this.kept.keys()].sort(), after: undefined };
  }

  async read(name: string): Promise<StoredDocument> {
    const { revision } = this;
    const kept = this.kept.get(name);
    const at = revision;
    const notes = Array.from({ length: kept?.notes ?? 0 }, (_, i) => ({ id: String(i), text: '', at }));
    const text = kept ? serializeSessionDocument(kept.document, kept.lastToken, OTHER) : null;
    const writtenAt = kept?.writtenAt ?? 0;
    return { name, version: kept?.writtenAt, text, writtenAt, revision, notes, notesRead: revision };
  }

  async remove({ name }: StoredDocument): Promise<void> {
    const { document, lastToken, notes, changedAt } = this.kept.get(name) as Kept;
    const sessions = [...document.holders, ...document.queue].map(({ session }) => session);
    if (this.sessions.has(EARLIER)) this.wrong.push(`${name}: another client sweeps`);
    if (sessions.some((id) => id !== undefined && this.sessions.has(id))) this.wrong.push(`${name}: in use`);
    if (notes > 0) this.wrong.push(`${name}: somebody waits for it`);
    if (lastToken > this.revision) this.wrong.push(`${name}: the next tokens would be smaller`);
    if (this.clock.now() - changedAt < SWEPT_AFTER_MS) this.wrong.push(`${name}: used too lately`);
    this.kept.delete(name);
  }
}

function holderOf(session: string): LockDocument {
  const holder = {
    owner: 'x:1',
    claim: LOCK,
    token: 1,
    lastToken: 1,
    until: Infinity,
    leaseMs: 1000,
    session,
  };
  return { holders: [holder], queue: [] };
}

describe('a sweep of the documents of etcd or ZooKeeper', () => {
  const stage = () => {
    const clock = new ManualClock();
    const shelf = new Shelf(clock);
    return { clock, shelf, sweeper: new SessionSweeper(shelf, clock, () => OWN) };
  };

  it('deletes what nobody has had for ten minutes by its own look, and nothing that somebody may still need', async () => {
    const happening: fc.Arbitrary<Happening> = fc.record({
      what: fc.constantFrom(...happenings),
      name: fc.constantFrom(...NAMES),
      minutes: fc.integer({ min: 1, max: 12 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(happening, { maxLength: 30 }), async (all) => {
        const { clock, shelf, sweeper } = stage();
        for (const { what, name, minutes } of all) {
          await clock.advance(MINUTE_MS);
          if (what === 'is used') shelf.write(name, FREE);
          if (what === 'is held by another session') shelf.write(name, holderOf(OTHER));
          if (what === 'is held by an ended session') shelf.write(name, holderOf('ended'));
          if (what === 'gets a note') shelf.setNotes(name, 1);
          if (what === 'loses its notes') shelf.setNotes(name, 0);
          if (what === 'has a token ahead of the revision') shelf.write(name, FREE, 5);
          if (what === 'an earlier session begins') shelf.sessions.add(EARLIER);
          if (what === 'the earlier session ends') shelf.sessions.delete(EARLIER);
          if (what === 'some minutes pass') await clock.advance(minutes * MINUTE_MS);
          if (what === 'a sweep') await sweeper.sweep();
        }
        expect(shelf.wrong).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  it('deletes each free document in the second of two sweeps that are ten minutes apart', async () => {
    const { clock, shelf, sweeper } = stage();
    shelf.write('a', holderOf('ended'));
    await sweeper.sweep();
    await clock.advance(SWEPT_AFTER_MS - 1);
    await sweeper.sweep();
    expect(shelf.kept.size).toBe(NAMES.length);
    await clock.advance(1);
    await sweeper.sweep();
    expect(shelf.kept.size).toBe(0);
    expect(shelf.wrong).toEqual([]);
  });
});
