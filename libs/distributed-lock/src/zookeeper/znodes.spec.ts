import { describe, expect, it } from '@jest/globals';
import { LockKeyError } from '../port/lock.errors.js';
import { Request } from './client/protocol.js';
import type { ZookeeperSession } from './client/session.js';
import { LockPaths, Znodes } from './znodes.js';

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

describe('a document that is read together with its notes', () => {
  const OP = { sync: Request.sync('/').op, children: Request.getChildren('/').op };
  const noted = { names: ['merged!0000000000'], stat: { czxid: 1, pzxid: 5, version: 1, creations: 1 } };
  const empty = { names: [], stat: { ...noted.stat, pzxid: 9 } };
  const node = { data: 'with the note', stat: { czxid: 1, mzxid: 9, version: 3 } };

  /** A server whose notes are first these and then those. */
  function serverWith(...children: readonly object[]) {
    const asked: number[] = [];
    let readings = 0;
    const send = async ({ op }: Request<unknown>) => void asked.push(op);
    const readIfExists = async ({ op }: Request<unknown>) => {
      asked.push(op);
      return op === OP.children ? children[Math.min(readings++, children.length - 1)] : node;
    };
    const session = { lastZxid: 9, send, readIfExists } as unknown as ZookeeperSession;
    return { asked, znodes: new Znodes({ session, paths: new LockPaths('/root'), acl: 'open' }) };
  }

  it('is read again if it was written since its notes changed, so that a merged note does not count twice', async () => {
    const { znodes } = serverWith(noted, empty);
    expect(await znodes.rowOf('k')).toMatchObject({ text: 'with the note', notes: [] });
  });

  it('is believed if two readings show the same write: that one has left the notes', async () => {
    const { znodes } = serverWith(noted);
    expect(await znodes.rowOf('k')).toMatchObject({ notes: [{ id: 'merged!0000000000', text: 'merged' }] });
  });

  it('is read after the server has caught up with the leader', async () => {
    const { asked, znodes } = serverWith(empty);
    await znodes.read('k');
    expect(asked.indexOf(OP.sync)).toBe(0);
    expect(asked).toHaveLength(3);
  });
});
