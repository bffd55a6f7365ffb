import { describe, expect, it } from '@jest/globals';
import { RememberedDocuments, type DocumentSeen } from './remembered-documents.js';

const MOST_REMEMBERED = 10_000;
const REVISION = 100;

function seen(lastToken: number | undefined, more: Partial<DocumentSeen> = {}): DocumentSeen {
  return { version: undefined, lastToken, writtenAt: REVISION, createdAt: 1, revision: REVISION, ...more };
}

describe('documents of free locks', () => {
  it('are remembered with version and last token, until they are seen otherwise', () => {
    const documents = new RememberedDocuments();
    documents.see('a', seen(70, { version: 7 }));
    documents.see('b', seen(80, { version: 8 }));
    expect(documents.get('a')).toEqual({ version: 7, lastToken: 70 });
    documents.see('a', seen(71));
    expect(documents.get('a')).toBeUndefined();
    expect(documents.get('b')).toEqual({ version: 8, lastToken: 80 });
    documents.see('b', seen(undefined));
    expect(documents.get('b')).toBeUndefined();
  });

  it('are forgotten when there are too many, and those that were seen last are kept', () => {
    const documents = new RememberedDocuments();
    const see = (name: string, i: number): number => documents.see(name, seen(i, { version: i }));
    for (let i = 0; i < MOST_REMEMBERED; i++) see(`name ${i}`, i);
    see('name 0', 1);
    see('one more', 2);
    expect(documents.get('name 1')).toBeUndefined();
    expect(documents.get('name 0')).toEqual({ version: 1, lastToken: 1 });
    expect(documents.get('name 2')).toEqual({ version: 2, lastToken: 2 });
    expect(documents.get('one more')).toEqual({ version: 2, lastToken: 2 });
  });
});

describe('the last token of a document that somebody has deleted by hand', () => {
  it('is remembered until the revision is as large', () => {
    const documents = new RememberedDocuments();
    documents.see('a', seen(REVISION + 9));
    documents.see('a', seen(undefined, { revision: REVISION + 1 }));
    expect(documents.get('a')).toEqual({ version: undefined, lastToken: REVISION + 9 });
    documents.see('a', seen(undefined, { revision: REVISION + 9 }));
    expect(documents.get('a')).toBeUndefined();
  });

  it('is what the document says that was written after it', () => {
    const documents = new RememberedDocuments();
    documents.see('a', seen(REVISION + 9));
    expect(documents.see('a', seen(REVISION + 5))).toBe(REVISION + 5);
    documents.onDeleted('a');
    expect(documents.get('a')).toBeUndefined();
  });

  it('is remembered while a client that did not know it writes a new one', () => {
    const documents = new RememberedDocuments();
    documents.see('a', seen(REVISION + 9));
    const made = { writtenAt: REVISION + 1, createdAt: REVISION + 1, revision: REVISION + 1 };
    expect(documents.see('a', seen(REVISION + 1, made))).toBe(REVISION + 9);
    const written = { writtenAt: REVISION + 2, createdAt: REVISION + 1, revision: REVISION + 2 };
    expect(documents.see('a', seen(REVISION + 2, written))).toBe(REVISION + 9);
    // A message does not say when the document was made.
    expect(documents.see('a', seen(REVISION + 2, { ...written, createdAt: undefined }))).toBe(REVISION + 9);
    expect(documents.get('a')).toEqual({ version: undefined, lastToken: REVISION + 9 });
  });
});
