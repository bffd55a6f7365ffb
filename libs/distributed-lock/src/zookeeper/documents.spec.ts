import { describe, expect, it } from '@jest/globals';
import type { SessionSwap, SessionTake } from '../session/backend.js';
import { CODE, frameOf, getChildren, multi, type Request, ZookeeperRefusalError } from './client/requests.js';
import type { ZookeeperSession } from './client/session.js';
import { Documents } from './documents.js';
import { zookeeperError } from './failures.js';
import { LockPaths } from './lock-path.js';

const OP = { multi: multi([]).op, getChildren: getChildren('/').op };
const FREE = '[1,0,[],[]]';

/** Executes every write, unless a code says why one fails, and refuses to list children. */
function documentsOf(
  codes: readonly { readonly index: number; readonly code: number }[] = [],
  onRequest: (request: Request<unknown>) => void = () => undefined,
): Documents {
  const failures = [...codes];
  const send = (request: Request<unknown>) => {
    const { op } = request;
    onRequest(request);
    if (op === OP.getChildren) return Promise.reject(new ZookeeperRefusalError(CODE.throttled));
    if (op !== OP.multi) return Promise.reject(new ZookeeperRefusalError(CODE.noNode));
    const failure = failures.shift();
    return Promise.resolve({ zxid: 7, content: failure ? { isDone: false, ...failure } : { isDone: true } });
  };
  const session = { id: '0a', lastZxid: 7, send } as unknown as ZookeeperSession;
  return new Documents({ session, paths: new LockPaths('/nest-lock'), acl: 'open' });
}

const session = { id: '0a', validUntil: Infinity };
const take: SessionTake = { name: 'k', seen: undefined, text: FREE, notes: [], session };
const swap: SessionSwap = {
  name: 'k',
  version: 1,
  text: FREE,
  mayDelete: false,
  session,
  failOnUnreadNotes: false,
  notesRead: 1,
  nextTicket: 1,
  mergedNotes: [],
  messages: { name: 'k', clients: [], text: () => '' },
};
const reasonOf = (write: Promise<unknown>) =>
  write.then(
    () => 'done',
    (error: unknown) => zookeeperError(error, 'k').reason,
  );

describe('a write of ZooKeeper of which the reading is refused', () => {
  it('is unknown, and not unready, when its write was executed', async () => {
    expect(await reasonOf(documentsOf().swap(swap))).toBe('unknown');
    const waiting = { ...take, notes: ['note'] };
    const seen = { version: 1, isFree: false, notesRead: 1, nextTicket: 1 };
    expect(await reasonOf(documentsOf().take({ ...waiting, seen }))).toBe('unknown');
    const queueExists = documentsOf([{ index: 2, code: CODE.nodeExists }]);
    expect(await reasonOf(queueExists.take(take))).toBe('unknown');
  });

  it('is unready when its write was not executed', async () => {
    const changed = documentsOf([{ index: 1, code: CODE.badVersion }]);
    expect(await reasonOf(changed.swap(swap))).toBe('unready');
  });
});

describe('a swap that notifies three clients, one of which is gone', () => {
  it('is written again with the messages to the other two', async () => {
    const writes: string[] = [];
    const documents = documentsOf([{ index: 4, code: CODE.noNode }], (request) => {
      if (request.op === OP.multi) writes.push(frameOf(request, 1).toString());
    });
    const clients = ['first', 'gone', 'last'];
    const messages = { name: 'k', clients, text: () => 'message' };
    await documents.swap({ ...swap, failOnUnreadNotes: true, messages });
    const addressed = writes.map((text) => clients.filter((client) => text.includes(`/${client}`)));
    expect(addressed).toEqual([clients, ['first', 'last']]);
  });
});
