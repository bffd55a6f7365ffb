import { describe, expect, it } from '@jest/globals';
import { LOCK, SHARED, type Claim } from '../port/lock-store.js';
import { firstGrantOf, type Holder, type LockDocument, type StoredWaiter } from '../document/document.js';
import {
  parseSessionDocument,
  serializeSessionDocument,
  isFreeJson,
  parseSessionNote,
  serializeSessionNote,
} from './json.js';

const WRITTEN_AT = 700;
const permits: Claim = { kind: 'permits', permits: 3, weight: 2 };

const waiter: StoredWaiter = {
  owner: 'b:1',
  claim: permits,
  leaseMs: Infinity,
  tokens: 100,
  minToken: 6,
  ticket: 9,
  nonce: 'n',
  until: { inMs: 500 },
};
const holder: Holder = { owner: 'a:1', claim: LOCK, token: 5, lastToken: 8, until: { inMs: 9000 } };

const read = (text: string) => parseSessionDocument(text, WRITTEN_AT, 'goods:42');
const rewritten = (text: string, session: string) => {
  const { document, lastToken } = read(text);
  return serializeSessionDocument(document, lastToken, session);
};

describe('the text of a document under sessions', () => {
  it('says what was written, under the session of its writer, and nothing about time', () => {
    const document: LockDocument = { holders: [holder], queue: [waiter] };
    expect(read(serializeSessionDocument(document, 8, 's1'))).toEqual({
      document: {
        holders: [{ ...holder, until: Infinity, leaseMs: 9000, session: 's1' }],
        queue: [{ ...waiter, until: Infinity, session: 's1' }],
      },
      lastToken: 8,
    });
  });

  it('keeps the sessions of the entries that another client has written', () => {
    const granted = { ...holder, nonce: 'n', isUnconfirmed: true, session: 's1' };
    const text = serializeSessionDocument(
      { holders: [granted], queue: [{ ...waiter, session: 's2' }] },
      8,
      's3',
    );
    expect(rewritten(text, 's4')).toBe(text);
    expect(read(text).document.holders).toMatchObject([{ nonce: 'n', isUnconfirmed: true, session: 's1' }]);
  });

  it.each<[string, Claim]>([
    ['a lock', LOCK],
    ['a reader', SHARED],
    ['a writer', { kind: 'exclusive' }],
    ['permits', permits],
  ])('names %s', (_, claim) => {
    const text = serializeSessionDocument({ holders: [{ ...holder, claim }], queue: [] }, 8, 's1');
    expect(read(text).document.holders).toMatchObject([{ claim }]);
  });

  it('of a lease without an end has no length', () => {
    const endless = { ...holder, until: { inMs: Infinity } };
    expect(
      read(serializeSessionDocument({ holders: [endless], queue: [] }, 8, 's1')).document.holders,
    ).toMatchObject([{ leaseMs: Infinity }]);
  });

  it('of a lock that was free gives out the revision of the write, and larger tokens than were given out before', () => {
    const request = {
      key: 'k',
      owner: 'a:1',
      claim: LOCK,
      leaseMs: 9000,
      mayWait: false,
      ticket: 0,
      tokens: 3,
    };
    const first = read(serializeSessionDocument(firstGrantOf(request), 10, 's1'));
    expect(first.document.holders).toMatchObject([{ token: WRITTEN_AT, lastToken: WRITTEN_AT + 2 }]);
    expect(first.lastToken).toBe(WRITTEN_AT + 2);
    const later = read(serializeSessionDocument(firstGrantOf(request), 900, 's1'));
    expect(later.document.holders).toMatchObject([{ token: 901, lastToken: 903 }]);
    expect(later.lastToken).toBe(903);
  });

  it('tells that the lock is free', () => {
    expect(isFreeJson(serializeSessionDocument({ holders: [], queue: [] }, 8, 's1'))).toBe(true);
    expect(isFreeJson(serializeSessionDocument({ holders: [holder], queue: [] }, 8, 's1'))).toBe(false);
    expect(isFreeJson(serializeSessionDocument({ holders: [], queue: [waiter] }, 8, 's1'))).toBe(false);
  });

  it.each(['[2,0,[],[]]', '7', '{}', 'hello', '[1,0,[7],[]]', '[1,0,null,[]]'])(
    'that this release has not written is refused: %s',
    (text) => {
      expect(() => read(text)).toThrow(expect.objectContaining({ reason: 'refused', key: 'goods:42' }));
    },
  );
});

describe('the text of a note under sessions', () => {
  it.each([{}, { maxWaiting: 0 }, { maxWaiting: 3 }])('says who waits, under which session: %j', (limit) => {
    const { until: _, ...rest } = waiter;
    const note = { ...rest, ...limit };
    const text = serializeSessionNote({ ...note, waitMs: 500 }, 's1');
    expect(parseSessionNote({ id: 'x', text, at: 77 }, 'goods:42')).toEqual({
      ...note,
      session: 's1',
      waitMs: Infinity,
      id: 'x',
      at: 77,
    });
  });

  it('that this release has not written is refused', () => {
    expect(() => parseSessionNote({ id: 'x', text: 'null', at: 77 }, 'goods:42')).toThrow(
      expect.objectContaining({ reason: 'refused', key: 'goods:42' }),
    );
  });
});
