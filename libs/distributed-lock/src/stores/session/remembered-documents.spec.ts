import { describe, expect, it } from '@jest/globals';
import { RememberedDocuments } from './remembered-documents.js';

const MOST_REMEMBERED = 10_000;
const REVISION = 100;

describe('documents of free locks', () => {
  it('are remembered with version and last token, until they are seen otherwise', () => {
    const documents = new RememberedDocuments();
    documents.onDocument('a', 7, 70, REVISION);
    documents.onDocument('b', 8, 80, REVISION);
    expect(documents.get('a')).toEqual({ version: 7, lastToken: 70 });
    documents.onDocument('a', undefined, 71, REVISION);
    expect(documents.get('a')).toBeUndefined();
    expect(documents.get('b')).toEqual({ version: 8, lastToken: 80 });
    documents.onNone('b', REVISION);
    expect(documents.get('b')).toBeUndefined();
  });

  it('are forgotten when there are too many, and those that were seen last are kept', () => {
    const documents = new RememberedDocuments();
    const see = (name: string, i: number): void => documents.onDocument(name, i, i, REVISION);
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
    documents.onDocument('a', undefined, REVISION + 9, REVISION);
    documents.onNone('a', REVISION + 1);
    expect(documents.get('a')).toEqual({ version: undefined, lastToken: REVISION + 9 });
    documents.onNone('a', REVISION + 9);
    expect(documents.get('a')).toBeUndefined();
  });

  it('is what the document says that was written after it', () => {
    const documents = new RememberedDocuments();
    documents.onDocument('a', undefined, REVISION + 9, REVISION);
    documents.onDocument('a', undefined, REVISION + 5, REVISION);
    expect(documents.get('a')).toEqual({ version: undefined, lastToken: REVISION + 5 });
    documents.onDeleted('a');
    expect(documents.get('a')).toBeUndefined();
  });
});
