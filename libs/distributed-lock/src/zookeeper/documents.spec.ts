import { describe, expect, it } from '@jest/globals';
import type { SessionSwap, SessionTake } from '../session/backend.js';
import {
  ANY_VERSION,
  CODE,
  JuteWriter,
  Operation,
  Request,
  type ZookeeperError,
  ZookeeperRefusalError,
} from './client/protocol.js';
import { ZookeeperSession } from './client/session.js';
import { Documents } from './documents.js';
import { LockPaths, Znodes } from './znodes.js';

const OP = { multi: Request.multi([]).op, getChildren: Request.getChildren('/').op };
const FREE = '[1,0,[],[]]';
const PATHS = new LockPaths('/nest-lock');

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
  const session = {
    id: '0a',
    lastZxid: 7,
    send,
    readIfExists(request: Request<unknown>): Promise<unknown> {
      return ZookeeperSession.prototype.readIfExists.call(this as never, request);
    },
  } as unknown as ZookeeperSession;
  return new Documents(new Znodes({ session, paths: PATHS, acl: 'open' }));
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
    (error: ZookeeperError) => error.reason,
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
      if (request.op === OP.multi) writes.push(request.frame(1).toString());
    });
    const clients = ['first', 'gone', 'last'];
    const messages = { name: 'k', clients, text: () => 'message' };
    await documents.swap({ ...swap, failOnUnreadNotes: true, messages });
    const addressed = writes.map((text) => clients.filter((client) => text.includes(`/${client}`)));
    expect(addressed).toEqual([clients, ['first', 'last']]);
  });
});

const contentOf = (operation: Operation) => {
  const writer = new JuteWriter();
  operation.write(writer);
  return writer.frame().subarray(4);
};

describe('a note beside a document in ZooKeeper', () => {
  it('raises the version of its parent, on which a swap that must have read all notes depends', async () => {
    const sent: Buffer[] = [];
    const documents = documentsOf([], (request) => sent.push(request.frame(1)));
    const seen = { version: 1, isFree: false, notesRead: 1, nextTicket: 1 };
    expect(await reasonOf(documents.take({ ...take, seen, notes: ['note'] }))).toBe('unknown');
    expect(sent[0]?.includes(contentOf(Operation.setData(PATHS.queueOf('k'), '', ANY_VERSION)))).toBe(true);
  });
});

const LEAST = -(2 ** 31);
const LARGEST = 2 ** 31 - 1;
/** The version of a row whose znode has this version. */
const rowVersion = (version: number) => version + 1;

describe('the version of a document in ZooKeeper', () => {
  const exactly = (version: number | undefined): SessionSwap => ({
    ...swap,
    version,
    failOnUnreadNotes: true,
  });
  /** The version of the row after a swap of the row with this version, and the version that the request names. */
  const swapped = async (version: number | undefined) => {
    const sent: Buffer[] = [];
    const documents = documentsOf([], (request) => sent.push(request.frame(1)));
    const { row } = await documents.swap(exactly(version));
    const setsAt = (condition: number) =>
      sent[0]?.includes(contentOf(Operation.setData(PATHS.documentOf('k'), FREE, condition)));
    return { after: row.version, setsAt };
  };

  it('is one more after a write, and goes on with the least number of 32 bits after the largest', async () => {
    expect((await swapped(undefined)).after).toBe(rowVersion(0));
    for (const [before, after] of [
      [0, 1],
      [LARGEST - 1, LARGEST],
      [LARGEST, LEAST],
      [LEAST, LEAST + 1],
    ] as const) {
      expect((await swapped(rowVersion(before))).after).toBe(rowVersion(after));
    }
  });

  it('is what a write depends on, also when it has become negative', async () => {
    for (const version of [0, 1, LARGEST, LEAST, -3]) {
      expect((await swapped(rowVersion(version))).setsAt(version)).toBe(true);
    }
  });

  it('is used up after the last one, and a write that would depend on none is refused unsent in plain words', async () => {
    const sent: unknown[] = [];
    const documents = documentsOf([], (request) => sent.push(request));
    for (const version of [-2, -1]) {
      const written = documents.swap(exactly(rowVersion(version)));
      await expect(written).rejects.toMatchObject({ reason: 'refused' });
      await expect(written).rejects.toThrow(
        /znode \/nest-lock\/l\/k are used up after 4294967294 writes. Use another key, or/,
      );
    }
    expect(sent).toEqual([]);
  });
});
