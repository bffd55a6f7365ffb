import { describe, expect, it } from '@jest/globals';
import { ManualClock } from '../testing/manual-clock.js';
import { RememberedDocuments } from './remembered-documents.js';
import type { StoredDocument } from './backend.js';

const MAX_REMEMBERED = 10_000;
const REVISION = 100;

/** The documents that a client has read by one request. */
function seen(
  lastToken: number | undefined,
  {
    isFree = false,
    isMessage = false,
    ...more
  }: Partial<StoredDocument> & { isFree?: boolean; isMessage?: boolean } = {},
) {
  const stored: StoredDocument = {
    name: 'a',
    version: undefined,
    text: null,
    writtenAt: REVISION,
    createdAt: 1,
    revision: REVISION,
    notes: [],
    notesRead: 0,
    ...more,
  };
  return { stored, isFree, lastToken, isMessage };
}

describe('documents', () => {
  it('are remembered with version and last token, as they were seen last', () => {
    const documents = new RememberedDocuments(new ManualClock());
    documents.see(seen(70, { version: 7, isFree: true }));
    documents.see(seen(80, { name: 'b', version: 8, isFree: true }));
    expect(documents.seen('a')).toMatchObject({ version: 7, isFree: true });
    documents.see(seen(71, { version: 9 }));
    expect(documents.seen('a')).toMatchObject({ version: 9, isFree: false });
    expect(documents.seen('b')).toMatchObject({ version: 8 });
    expect(['a', 'b', 'c'].map((name) => documents.lastTokenOf(name))).toEqual([71, 80, 0]);
  });

  it('are forgotten when there are too many, and those that were seen last are kept', () => {
    const documents = new RememberedDocuments(new ManualClock());
    const see = (name: string, i: number): number => documents.see(seen(i, { name, version: i }));
    for (let i = 0; i < MAX_REMEMBERED; i++) see(`name ${i}`, i);
    see('name 0', 1);
    see('one more', 2);
    expect(documents.seen('name 1')).toBeUndefined();
    expect(['name 0', 'name 2', 'one more'].map((name) => documents.seen(name)?.version)).toEqual([1, 2, 2]);
  });

  it('are not believed in when they were read too long ago, and a message makes them no younger', async () => {
    const clock = new ManualClock();
    const documents = new RememberedDocuments(clock, 1000);
    documents.see(seen(70, { version: 7 }));
    await clock.advance(600);
    documents.see(seen(71, { version: 8, writtenAt: REVISION + 1, isMessage: true }));
    expect(documents.seen('a')).toMatchObject({ version: 8 });
    await clock.advance(400);
    expect([documents.seen('a'), documents.isOld('a')]).toEqual([undefined, true]);
    documents.see(seen(71, { name: 'b', version: 8, isMessage: true }));
    expect(documents.isOld('b')).toBe(true);
  });

  it('do not become older by a message that was under way for long', () => {
    const documents = new RememberedDocuments(new ManualClock());
    documents.see(seen(70, { version: 7 }));
    documents.see(seen(60, { version: 6, writtenAt: REVISION - 1, isMessage: true }));
    expect(documents.seen('a')).toMatchObject({ version: 7 });
  });
});

describe('the version of a document', () => {
  it('is forgotten with the session, and the last token is not: versions count anew after the restore of a backup', () => {
    const documents = new RememberedDocuments(new ManualClock());
    documents.see(seen(REVISION + 9));
    expect(documents.seen('a')).toBeDefined();
    documents.onSessionEnd();
    expect([documents.seen('a'), documents.isOld('a')]).toEqual([undefined, true]);
    expect(documents.lastTokenOf('a')).toBe(REVISION + 9);
    documents.see(seen(REVISION + 9));
    expect(documents.seen('a')).toBeDefined();
  });
});
