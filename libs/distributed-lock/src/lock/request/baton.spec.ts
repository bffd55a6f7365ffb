import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import type { Claim } from '../../port/lock-store.js';
import { LockConfigurationError, LockKeyError } from '../../port/lock.errors.js';
import { type Baton, readBaton, writeBaton } from './baton.js';

const HERE = { store: 'redis', keyPrefix: 'shop:' };
const BATON: Baton = {
  ...HERE,
  key: 'goods:鎖 "42"',
  claim: { kind: 'lock' },
  owner: 'a-b:7',
  token: 1234567,
};

/** A baton with a right checksum around any content, as somebody could write it who knows the format. */
function forged(content: unknown, format = 1): string {
  const body = Buffer.from(JSON.stringify(content)).toString('base64url');
  return `nest-lock-${format}.${body}.${createHash('sha256').update(body).digest('hex').slice(0, 16)}`;
}

describe('a baton', () => {
  it.each<Claim>([
    { kind: 'lock' },
    { kind: 'exclusive' },
    { kind: 'shared' },
    { kind: 'permits', permits: 5, weight: 2 },
  ])('is read as it was written: %j', (claim) => {
    expect(readBaton(writeBaton({ ...BATON, claim }), HERE)).toEqual({ ...BATON, claim });
  });

  it('is a text that needs no escape in JSON, in a URL or in a shell', () => {
    expect(writeBaton(BATON)).toMatch(/^[\w.-]+$/);
  });

  it('that was cut or changed anywhere is refused as a key is', () => {
    const text = writeBaton(BATON);
    for (let i = 0; i < text.length; i += 1) {
      const changed = text.slice(0, i) + (text[i] === 'A' ? 'B' : 'A') + text.slice(i + 1);
      for (const wrong of [changed, text.slice(0, i)])
        expect(() => readBaton(wrong, HERE)).toThrow(LockKeyError);
    }
    for (const wrong of [undefined, null, 7, {}, '', `${text} `, `${text}\n`])
      expect(() => readBaton(wrong as string, HERE)).toThrow('it was cut or changed on its way');
  });

  it('of another format is refused with both numbers', () => {
    const newer = writeBaton(BATON).replace('nest-lock-1', 'nest-lock-2');
    expect(() => readBaton(newer, HERE)).toThrow(LockConfigurationError);
    expect(() => readBaton(newer, HERE)).toThrow('format 2, and this release reads format 1');
  });

  it.each([{ store: 'postgres' }, { keyPrefix: '' }])('of %j is refused with both names', (other) => {
    const foreign = writeBaton({ ...BATON, ...other });
    expect(() => readBaton(foreign, HERE)).toThrow(LockConfigurationError);
    expect(() => readBaton(foreign, HERE)).toThrow('Attach it by a service of the same store and keyPrefix');
  });

  it.each([
    null,
    [],
    {},
    { key: '' },
    { key: 7 },
    { key: 'k'.repeat(2000) },
    { owner: undefined },
    { owner: 'a-b:-7' },
    { token: 1.5 },
    { token: '7' },
    { token: 2 ** 60 },
    { store: undefined },
    { keyPrefix: 1 },
    { options: null },
    { options: { mode: 'write' } },
    { options: { permits: 2, weight: 3 } },
    { options: { permits: 1e9, weight: 1e9 } },
    { options: { leaseMs: 5 } },
  ])('that somebody has written by hand is refused: %j', (change) => {
    const { claim: _claim, ...parts } = BATON;
    const isWhole = Array.isArray(change) || change === null || Object.keys(change).length === 0;
    expect(() => readBaton(forged({ ...parts, options: {} }), HERE)).not.toThrow();
    const content = isWhole ? change : { ...parts, options: {}, ...change };
    expect(() => readBaton(forged(content), HERE)).toThrow(LockKeyError);
  });
});
