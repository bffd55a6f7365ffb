import { describe, expect, it } from '@jest/globals';
import { EmptiedDocuments } from './emptied-documents.js';

const MOST_REMEMBERED = 10_000;

describe('emptied documents', () => {
  it('are known by their version and last token, until they are seen otherwise', () => {
    const emptied = new EmptiedDocuments();
    emptied.see('a', 7, 70);
    emptied.see('b', 8, 80);
    expect(emptied.get('a')).toEqual({ version: 7, lastToken: 70 });
    emptied.see('a', undefined, 71);
    expect(emptied.get('a')).toBeUndefined();
    expect(emptied.get('b')).toEqual({ version: 8, lastToken: 80 });
  });

  it('are forgotten when there are too many, and those that were seen last are kept', () => {
    const emptied = new EmptiedDocuments();
    for (let i = 0; i < MOST_REMEMBERED; i++) emptied.see(`name ${i}`, i, i);
    emptied.see('name 0', 1, 1);
    emptied.see('one more', 2, 2);
    expect(emptied.get('name 1')).toBeUndefined();
    expect(emptied.get('name 0')).toEqual({ version: 1, lastToken: 1 });
    expect(emptied.get('name 2')).toEqual({ version: 2, lastToken: 2 });
    expect(emptied.get('one more')).toEqual({ version: 2, lastToken: 2 });
  });
});
