import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Claim } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { parseDocument, serializeDocument, parseNotes, serializeNote, serializeFirstGrant } from './json.js';
import { FREE, resolveAll, type Holder, type Note, type StoredWaiter } from './document.js';

const AT = 1_700_000_000_123_456;

const ms = fc.oneof(fc.nat(), fc.constant(Infinity));
const whole = fc.nat({ max: Number.MAX_SAFE_INTEGER });
const owner = fc.string({ minLength: 1, unit: 'binary' }).map((text) => `${text}:1`);
const claim = fc.oneof<fc.Arbitrary<Claim>[]>(
  fc.constantFrom({ kind: 'lock' }, { kind: 'exclusive' }, { kind: 'shared' }),
  fc.record({ kind: fc.constant('permits' as const), permits: fc.nat(), weight: fc.nat() }),
);
const moment = fc.oneof(
  ms,
  ms.map((inMs) => ({ inMs })),
);
const holder: fc.Arbitrary<Holder> = fc.record(
  {
    owner,
    claim,
    token: whole.map((token) => token + 1),
    lastToken: whole,
    until: moment,
    nonce: fc.string(),
  },
  { requiredKeys: ['owner', 'claim', 'token', 'lastToken', 'until'] },
);
const unconfirmed: fc.Arbitrary<Holder> = fc
  .tuple(holder, fc.string())
  .map(([given, nonce]) => ({ ...given, nonce, isUnconfirmed: true }));
const waiter: fc.Arbitrary<StoredWaiter> = fc.record({
  owner,
  claim,
  leaseMs: ms,
  tokens: fc.nat(),
  minToken: whole,
  ticket: whole,
  nonce: fc.string(),
  until: moment,
});
const note: fc.Arbitrary<Note> = fc.record(
  {
    owner,
    claim,
    leaseMs: ms,
    tokens: fc.nat(),
    minToken: whole,
    ticket: whole,
    nonce: fc.string(),
    waitMs: fc.nat(),
    maxWaiting: whole,
  },
  { requiredKeys: ['owner', 'claim', 'leaseMs', 'tokens', 'minToken', 'ticket', 'nonce', 'waitMs'] },
);

const row = (state: string | null, lastToken = 0, notes = '') => ({ state, notes, lastToken, at: AT });

describe('the text of a document', () => {
  it('is read as it was written, its moments counted from the write', () => {
    const document = fc.record({
      holders: fc.array(fc.oneof(holder, unconfirmed), { minLength: 1 }),
      queue: fc.array(waiter),
    });
    fc.assert(
      fc.property(document, (written) => {
        expect(parseDocument(row(serializeDocument(written)), 'k')).toEqual(resolveAll(written, AT / 1000));
      }),
    );
  });

  it('of a free key is none', () => {
    expect(serializeDocument(FREE)).toBeNull();
    expect(parseDocument(row(null), 'k')).toEqual(FREE);
  });

  it('of a key that was just taken gets its tokens from the row, which the store has counted', () => {
    const request = { key: 'k', owner: 'me:1', claim: { kind: 'lock' } as const, leaseMs: 500, tokens: 4 };
    const state = serializeFirstGrant({ ...request, mayWait: false, ticket: 0 });
    const [taken] = parseDocument(row(state, 1003), 'k').holders;
    expect(taken).toEqual({
      owner: 'me:1',
      claim: { kind: 'lock' },
      token: 1000,
      lastToken: 1003,
      until: AT / 1000 + 500,
    });
  });

  it('of a key that was just taken without an end of its lease has none either', () => {
    const request = { key: 'k', owner: 'me:1', claim: { kind: 'lock' } as const, tokens: 1 };
    const state = serializeFirstGrant({ ...request, leaseMs: Infinity, mayWait: false, ticket: 0 });
    expect(parseDocument(row(state, 7), 'k').holders).toMatchObject([{ until: Infinity, token: 7 }]);
  });

  it('in another format is refused with both numbers, the key, and what to do', () => {
    const read = () => parseDocument(row('[2,[],[]]'), 'goods:42');
    expect(read).toThrow(LockStoreError);
    expect(read).toThrow(/"goods:42" is written in format 2, and this release reads format 1\. Use the same/);
    expect(read).toThrow(expect.objectContaining({ reason: 'refused', key: 'goods:42' }));
  });

  it.each(['{}', '[1]', '7', 'hello', '[1,[7],[]]'])('that others have written is refused: %s', (state) => {
    const read = () => parseDocument(row(state), 'goods:42');
    expect(read).toThrow(expect.objectContaining({ code: 'LOCK_STORE', reason: 'refused', key: 'goods:42' }));
  });
});

describe('the text of notes', () => {
  it('is read as it was written, one after the other, each with the moment that the store has added', () => {
    fc.assert(
      fc.property(fc.array(note), (written) => {
        const text = written.map((each, i) => `${serializeNote(each)}${AT + i}],`).join('');
        expect(parseNotes(row(null, 0, text), 'k')).toEqual(
          written.map((each, i) => ({ ...each, at: AT + i })),
        );
      }),
    );
  });
});
