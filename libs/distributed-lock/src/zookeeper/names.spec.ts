import { describe, expect, it } from '@jest/globals';
import { exists, getChildren, type Request, sync } from './client/requests.js';
import type { ZookeeperSession } from './client/session.js';
import { Documents } from './documents.js';
import { LockPaths, pageOf } from './lock-path.js';

const OP = { exists: exists('/').op, getChildren: getChildren('/').op, sync: sync('/').op };

describe('the names of locks in ZooKeeper', () => {
  it('are decoded, each once, on pages in their order', () => {
    const encoded = ['b', 'a%2f1', 'a', '%61', 'a%2F1', '%zz', 'c'];
    const first = pageOf(encoded, { prefix: '', after: undefined, most: 2 });
    expect(first).toEqual({ names: ['a', 'a/1'], after: 'a/1' });
    expect(pageOf(encoded, { prefix: '', after: first.after, most: 2 })).toEqual({
      names: ['b', 'c'],
      after: undefined,
    });
    expect(pageOf(encoded, { prefix: 'a/', after: '', most: 2 }).names).toEqual(['a/1']);
  });

  it('are not asked for when one reply would have too many, and the error says what to do', async () => {
    const asked: number[] = [];
    const send = async ({ op }: Request<unknown>) => {
      asked.push(op);
      return { zxid: 7, content: { childCount: 200_001 } };
    };
    const session = { send } as unknown as ZookeeperSession;
    const documents = new Documents({ session, paths: new LockPaths('/nest-lock'), acl: 'open' });
    const listed = documents.list({ prefix: '', after: undefined, most: 10 });
    await expect(listed).rejects.toMatchObject({ code: 'LOCK_STORE', reason: 'refused' });
    await expect(listed).rejects.toThrow(/\/nest-lock\/l has 200001 znodes.*locks\.inspect\(key\)/);
    expect(asked).toEqual([OP.sync, OP.exists]);
  });
});
