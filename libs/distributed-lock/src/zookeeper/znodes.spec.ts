import { describe, expect, it } from '@jest/globals';
import { LockKeyError } from '../port/lock.errors.js';
import { LockPaths } from './znodes.js';

const ODD = [
  '.',
  '..',
  '/',
  'a/b',
  '%2f',
  '%',
  'a.b',
  ' ',
  '\n',
  '\0',
  '\x7f',
  'ä',
  '🔒',
  '\ue000',
  '\ufff9',
  '!',
  'zookeeper',
];

describe('the name of a znode for a lock', () => {
  it('has nothing that ZooKeeper refuses in a name', () => {
    for (const name of ODD) {
      expect(LockPaths.encode(name)).toMatch(/^[^/.\p{Cc}\p{Co}\u{fff0}-\u{10ffff}]+$/u);
    }
  });

  it('tells the name of the lock', () => {
    expect(ODD.map((name) => LockPaths.decode(LockPaths.encode(name)))).toEqual(ODD);
    expect(new Set(ODD.map((name) => LockPaths.encode(name))).size).toBe(ODD.length);
  });

  it('leaves usual names as they are', () => {
    expect(LockPaths.encode('shop:goods:42-a_ä')).toBe('shop:goods:42-a_ä');
  });

  it('is not made for a name that is too long, or has half of a surrogate pair', () => {
    for (const name of ['ü'.repeat(1001), 'half \ud800', 'half \udc00']) {
      expect(() => LockPaths.check(name)).toThrow(LockKeyError);
    }
    expect(() => LockPaths.check('ü'.repeat(1000))).not.toThrow();
  });
});

describe('the name of a note', () => {
  const paths = new LockPaths('/nest-lock');

  it('tells its text and the number that the server added', () => {
    for (const text of ['["a:1","l"]', 'x!0000000007', '', '🔒/..']) {
      expect(
        LockPaths.decodeNote(`${paths.noteOf('k', text).slice(paths.queueOf('k').length + 1)}0000000042`),
      ).toEqual({ text, number: 42 });
    }
  });

  it('is known from the name of another znode', () => {
    for (const name of ['x', 'x!', 'x!12', '0000000042', '%zz!0000000042']) {
      expect(LockPaths.decodeNote(name)).toBeUndefined();
    }
  });
});

describe('the paths of the locks', () => {
  it('begin with the root, whose parents come first', () => {
    const paths = new LockPaths('/app/nest-lock');
    expect(paths.parents.slice(0, 3)).toEqual(['/app', '/app/nest-lock', '/app/nest-lock/l']);
    expect(paths.documentOf('a/b')).toBe('/app/nest-lock/l/a%2fb');
  });
});
