import { describe, expect, it } from '@jest/globals';
import { Request } from './client/protocol.js';
import { ZookeeperSession } from './client/session.js';
import { LockPaths, Znodes } from './znodes.js';

const OP = { exists: Request.exists('/').op, sync: Request.sync('/').op };

/** A root with documents of these encoded names. Says that there are `childCount`. */
function znodesOf(names: readonly string[], childCount = names.length) {
  const asked: number[] = [];
  const send = async ({ op }: Request<unknown>) => {
    asked.push(op);
    return { zxid: 7, content: { names, childCount } };
  };
  const session = {
    send,
    readIfExists(request: Request<unknown>): Promise<unknown> {
      return ZookeeperSession.prototype.readIfExists.call(this as never, request);
    },
  } as unknown as ZookeeperSession;
  return { asked, znodes: new Znodes({ session, paths: new LockPaths('/nest-lock'), acl: 'open' }) };
}

describe('the names of locks in ZooKeeper', () => {
  it('are decoded, each once, on pages in their order', async () => {
    const { znodes } = znodesOf(['b', 'a%2f1', 'a', '%61', 'a%2F1', '%zz', 'c']);
    const first = await znodes.list({ prefix: '', after: undefined, most: 2 });
    expect(first).toEqual({ names: ['a', 'a/1'], after: 'a/1' });
    expect(await znodes.list({ prefix: '', after: first.after, most: 2 })).toEqual({
      names: ['b', 'c'],
      after: undefined,
    });
    expect((await znodes.list({ prefix: 'a/', after: '', most: 2 })).names).toEqual(['a/1']);
  });

  it('are not asked for when one reply would have too many, and the error says what to do', async () => {
    const { asked, znodes } = znodesOf([], 200_001);
    const listed = znodes.list({ prefix: '', after: undefined, most: 10 });
    await expect(listed).rejects.toMatchObject({ code: 'LOCK_STORE', reason: 'refused' });
    await expect(listed).rejects.toThrow(/\/nest-lock\/l has 200001 znodes.*locks\.inspect\(key\)/);
    expect(asked).toEqual([OP.sync, OP.exists]);
  });
});
