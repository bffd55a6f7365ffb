import { beforeEach, describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-distributed-lock/testing';
import type { SessionLeases } from '../../libs/distributed-lock/src/document/leases.js';
import { type Claim, LOCK, SHARED } from '../../libs/distributed-lock/src/port/lock-store.js';
import type { Grant, LockStore, Queued } from '../../libs/distributed-lock/src/port/lock-store.js';
import { SESSION_KNOWN_MS } from '../../libs/distributed-lock/src/session/remembered-documents.js';
import { serializeSessionDocument, serializeMessage } from '../../libs/distributed-lock/src/session/json.js';
import { KEY, SessionClient } from './session-client.js';
import { COMMAND_TIMEOUT_MS, KEEP_ALIVE_MS, SESSION_MS, SessionServer } from './session-server.js';

const OTHER_KEY = 'other goods';
const EXCLUSIVE: Claim = { kind: 'exclusive' };

class Stage {
  readonly clock = new ManualClock();
  readonly server = new SessionServer(this.clock);
  readonly one = this.client();
  readonly two = this.client();
  readonly three = this.client();

  client(): SessionClient {
    return new SessionClient(this.server);
  }

  async pass(ms: number): Promise<void> {
    await this.clock.advance(ms);
    // A release waits for the next turn of the event loop, in which it may share a write.
    for (let turns = 0; turns < 4; turns++) await this.clock.settle();
  }

  settle(): Promise<void> {
    return this.pass(0);
  }

  /** One holds, and the others wait behind it in order. */
  async queueUp(...waiting: SessionClient[]): Promise<void> {
    this.one.acquire(1);
    await this.settle();
    for (const client of waiting) {
      client.wait(1);
      await this.settle();
    }
  }

  /** By hand, as an administrator does. The client learns it from its next keep-alive. */
  endSession({ store }: SessionClient): void {
    this.server.endSessionsOf(store.clientId);
  }

  /** The step of one client, and its result once it is settled. */
  async after<Result>(followed: { readonly value: Result }): Promise<Result> {
    await this.settle();
    return followed.value;
  }

  owners({ store }: SessionClient = this.three, key = KEY) {
    return store.inspect(key).then((found) => ({ holders: found?.holders, pending: found?.pending }));
  }
}

let stage: Stage;
let one: SessionClient;
let two: SessionClient;
let three: SessionClient;
beforeEach(() => {
  stage = new Stage();
  ({ one, two, three } = stage);
});

describe('a session that ends', () => {
  it('is a loss told at once, and its owners in the queue enter it again with their tickets', async () => {
    two.acquire(9, { key: OTHER_KEY, leaseMs: SESSION_MS });
    await stage.pass(KEEP_ALIVE_MS - 500);
    await stage.queueUp();
    const { ticket } = (await stage.after(two.wait(1))) as Queued;
    await stage.after(three.wait(1));
    stage.endSession(two);
    await stage.pass(500);
    expect(two.told(9)).toEqual(['lost']);
    expect(two.notifications).toContainEqual({ kind: 'recheck', afterMs: 0 });
    // Another client has dropped it meanwhile.
    await three.store.release({ ...three.request(1) });
    await stage.after(three.wait(2));
    const again = await stage.after(two.wait(1, { ticket }));
    expect(again).toMatchObject({ kind: 'queued', ticket });
    expect(await stage.owners()).toEqual({
      holders: [one.owner(1)],
      pending: [two.owner(1), three.owner(2)],
    });
    one.release(1);
    await stage.settle();
    expect(two.told(1)).toEqual(['granted']);
  });

  it('is not brought back by the renewal of what was held under it', async () => {
    const grant = (await stage.after(one.acquire(1))) as Grant;
    stage.endSession(one);
    await stage.pass(KEEP_ALIVE_MS);
    const [reply] = await stage.after(one.renew(1, grant));
    expect(reply).toEqual({ kind: 'lost' });
    expect(await stage.owners()).toEqual({});
  });
});

describe('a grant by another client', () => {
  it('that is never confirmed is taken back after about a second, and its client leaves the queue', async () => {
    await stage.queueUp(two);
    two.wait(2);
    await stage.after(three.wait(1));
    two.cut();
    one.release(1);
    await stage.settle();
    const early = (await stage.after(three.wait(1))) as Queued;
    expect(early).toMatchObject({ kind: 'queued', holder: two.owner(1) });
    // Its recheck comes when the time of the grant is over, and not before.
    expect(early.recheckAfterMs).toBeGreaterThan(900);
    expect(early.recheckAfterMs).toBeLessThanOrEqual(1000);
    await stage.pass(990);
    expect((await stage.after(three.wait(1))).kind).toBe('queued');
    await stage.pass(10);
    expect((await stage.after(three.wait(1))).kind).toBe('granted');
    expect(await stage.owners()).toEqual({ holders: [three.owner(1)], pending: [] });
  });
});

describe('a lease under a session', () => {
  it('that is longer than the session stays while its client lives, and ends with the session', async () => {
    await stage.after(one.acquire(1, { leaseMs: 10 * SESSION_MS }));
    await stage.pass(3 * SESSION_MS);
    expect(await stage.owners()).toEqual({ holders: [one.owner(1)], pending: [] });
    one.cut();
    await stage.pass(SESSION_MS + 1000);
    expect((await stage.after(two.wait(1))).kind).toBe('granted');
  });

  it('shows the whole of itself as what is left of it', async () => {
    await stage.after(one.acquire(1, { leaseMs: 20_000 }));
    await stage.pass(5000);
    expect(await two.store.inspect(KEY)).toMatchObject({ remainingMs: 20_000 });
  });

  it('does not end while a renewal that was not answered may have succeeded', async () => {
    const grant = (await stage.after(one.acquire(1, { leaseMs: 1000 }))) as Grant;
    await stage.pass(700);
    one.fates = ['unanswered'];
    one.renew(1, grant, { leaseMs: 1000 });
    await stage.pass(990);
    expect(await stage.owners()).toMatchObject({ holders: [one.owner(1)] });
    await stage.pass(20);
    expect(await stage.owners()).toEqual({});
  });

  it('a minimum hold ends at its time, though the reply to its release was lost', async () => {
    for (const fate of [undefined, 'unanswered'] as const) {
      await stage.queueUp(two);
      one.fates = [fate];
      const holdUntil = 2000;
      const released = one.release(1, { holdUntil });
      await stage.pass(1990);
      expect([released.state, two.told(1)]).not.toContainEqual(['granted']);
      await stage.pass(10);
      expect(two.told(1)).toContain('granted');
    }
  });

  it('is renewed without a write, once it is confirmed', async () => {
    const grant = (await stage.after(one.acquire(1))) as Grant;
    await stage.after(two.wait(1));
    const before = stage.server.newestRevision;
    for (let i = 0; i < 5; i++) {
      await stage.pass(500);
      await stage.after(one.renew(1, grant));
    }
    expect(stage.server.newestRevision).toBe(before);
  });

  it('is in doubt, and neither renewed nor lost, while no keep-alive of the session was answered in its time', async () => {
    const grant = (await stage.after(one.acquire(1, { leaseMs: SESSION_MS }))) as Grant;
    // The server prolongs all sessions, as after an election. The client does not hear of it.
    one.cut();
    await stage.pass(SESSION_MS - KEEP_ALIVE_MS);
    stage.server.prolongSessions();
    await stage.pass(KEEP_ALIVE_MS + COMMAND_TIMEOUT_MS);
    one.mend();
    const doubted = await stage.after(one.renew(1, grant, { leaseMs: SESSION_MS }));
    expect(doubted).toMatchObject([{ kind: 'unknown', error: { reason: 'unknown', key: KEY } }]);
    await stage.pass(KEEP_ALIVE_MS);
    const renewed = await stage.after(one.renew(1, grant, { leaseMs: SESSION_MS }));
    expect(renewed).toMatchObject([{ kind: 'renewed' }]);
  });
});

describe('a waiter whose process was killed', () => {
  it('counts for maxWaiting and is shown as waiting until its session is over, and no longer', async () => {
    await stage.after(one.acquire(1, { leaseMs: 2 * SESSION_MS }));
    await stage.after(two.wait(1));
    two.cut();
    const late = () => stage.after(three.wait(1, { mayWait: true, maxWaiting: 1 }));
    await stage.pass(SESSION_MS - KEEP_ALIVE_MS - 1);
    expect(await late()).toMatchObject({ kind: 'busy', waiting: 1 });
    expect((await stage.owners()).pending).toEqual([two.owner(1)]);
    await stage.pass(KEEP_ALIVE_MS + 1 + SESSION_KNOWN_MS);
    expect((await stage.owners()).pending).toEqual([]);
    expect(await late()).toMatchObject({ kind: 'queued', waiting: 0 });
  });
});

describe('a client that closes', () => {
  it('with a minimum hold keeps its session', async () => {
    await stage.queueUp(two);
    await stage.after(one.release(1, { holdUntil: 10_000 }));
    const closed = one.store.close();
    await stage.pass(1000);
    await closed;
    expect((await stage.after(two.wait(1))).kind).toBe('queued');
    await stage.pass(SESSION_MS + 1000);
    expect((await stage.after(two.wait(1))).kind).toBe('granted');
  });

  it('ends its session although a late message names an owner of it that has released', async () => {
    await stage.queueUp();
    one.pushesAfterMs = 100;
    await stage.after(two.wait(1));
    await stage.after(one.release(1));
    await stage.pass(100);
    const closed = one.store.close();
    await stage.settle();
    await closed;
    expect(stage.server.liveSessions).toBe(1);
    expect(two.told(1)).toEqual(['granted']);
  });
});

describe('fencing tokens grow', () => {
  it('over session ends, emptied and deleted documents, reserved tokens, and clients that start anew', async () => {
    const tokens: number[] = [];
    const acquire = async (client: SessionClient, number: number, reserved: number): Promise<Grant> => {
      const grant = (await stage.after(client.acquire(number, { tokens: reserved }))) as Grant;
      tokens.push(grant.token, grant.lastToken);
      return grant;
    };
    for (let round = 0; round < 4; round++) {
      const client = stage.client();
      await acquire(client, 1, 1000);
      await stage.after(client.release(1));
      const { token, lastToken } = await acquire(client, 2, 100);
      // The rest goes back: from here on, the last token is that of the release.
      await stage.after(client.release(2, { used: { token, lastToken } }));
      tokens.pop();
      await acquire(client, 3, 1);
      await stage.after(client.release(3));
      await acquire(client, 4, 10);
      stage.endSession(client);
      await stage.pass(KEEP_ALIVE_MS);
      await acquire(client, 5, 1);
      await client.store.forceRelease(KEY);
      await acquire(stage.client(), 1, 1);
      await client.store.forceRelease(KEY);
    }
    expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));
    const firsts = tokens.filter((token, i) => token !== tokens[i - 1]);
    expect(new Set(firsts).size).toBe(firsts.length);
  });

  it('at a client that has read the document which somebody deletes by hand', async () => {
    const { lastToken } = (await stage.after(one.acquire(1, { tokens: 1000 }))) as Grant;
    await two.store.inspect(KEY);
    stage.server.deleteByHand(KEY);
    const next = (await stage.after(two.acquire(1))) as Grant;
    expect(next.token).toBeGreaterThan(lastToken);
  });

  it.each(['takes', 'is handed'])(
    'at a client that %s the lock after one that knew nothing of the deleted document',
    async (how) => {
      const { lastToken } = (await stage.after(one.acquire(1, { tokens: 1000 }))) as Grant;
      await two.store.inspect(KEY);
      stage.server.deleteByHand(KEY);
      const { token } = (await stage.after(three.acquire(1))) as Grant;
      expect(token).toBeLessThan(lastToken);
      if (how === 'takes') {
        await two.store.inspect(KEY);
        three.release(1);
      } else {
        await stage.after(two.wait(1));
        stage.endSession(three);
        await stage.pass(1000);
      }
      await stage.settle();
      const next = (await stage.after(two.acquire(1))) as Grant;
      expect(next.token).toBeGreaterThan(lastToken);
    },
  );
});

it('a hundred readers of a hundred clients enter together, by messages that do not grow with their square', async () => {
  const { server } = stage;
  one.acquire(1, { claim: EXCLUSIVE });
  await stage.settle();
  const readers = Array.from({ length: 100 }, () => stage.client());
  for (const reader of readers) {
    reader.wait(1, { claim: SHARED });
    await stage.settle();
  }
  one.release(1);
  await stage.settle();
  expect(readers.map((reader) => reader.told(1).includes('granted'))).toEqual(readers.map(() => true));
  expect(server.mostMessageLength).toBeLessThan(256 * 1024);
});

describe('a message', () => {
  it.each([
    ['that is no JSON', 'hello'],
    ['without notes', '[1,"goods",{"version":7,"writtenAt":7,"notesRead":7,"text":"[1,0,[],[]]"}]'],
    [
      'with a text that is none',
      '[1,"goods",{"version":7,"writtenAt":7,"notesRead":7,"text":"[1,0,7,null]","notes":[]}]',
    ],
    [
      'with notes that are none',
      '[1,"goods",{"version":7,"writtenAt":7,"notesRead":7,"text":"[1,0,[],[]]","notes":[null,{"id":7}]}]',
    ],
    [
      'whose holder is no text',
      '[1,"goods",{"version":700,"writtenAt":700,"notesRead":700,"text":"[1,0,[[7,\\"l\\",1,1,null,null,0,\\"s\\"]],[]]","notes":[]}]',
    ],
  ])('%s is ignored', async (_, text) => {
    await stage.queueUp(two);
    const before = two.notifications.length;
    stage.server.tell({ name: KEY, clients: [two.store.clientId], text: () => text });
    await stage.settle();
    expect(two.notifications.length).toBe(before);
    one.release(1);
    await stage.settle();
    expect(two.told(1)).toEqual(['granted']);
  });

  it('that grants without the secret of its client is not believed', async () => {
    await stage.queueUp(two);
    const [owner, claim] = [two.owner(1), LOCK];
    const forged = { owner, claim, token: 900, lastToken: 900, until: Infinity, nonce: '0011223344556677' };
    const text = serializeSessionDocument({ holders: [forged], queue: [] }, 900, 's2');
    const message = serializeMessage(KEY, {
      version: 900,
      writtenAt: 900,
      notesRead: 900,
      nextTicket: 901,
      text,
      notes: [],
    });
    stage.server.tell({ name: KEY, clients: [two.store.clientId], text: () => message });
    await stage.settle();
    expect(two.told(1)).toEqual([]);
    expect((await stage.after(two.wait(1))).kind).toBe('queued');
  });
});

describe('an owner that its client has forgotten', () => {
  it('what a living client holds without knowing it is released while others wait for it', async () => {
    await stage.after(one.acquire(1, { leaseMs: SESSION_MS }));
    forget(one.store);
    for (let s = 0; s < 6 && two.told(1).length === 0; s++) {
      two.wait(1);
      await stage.pass(1000);
    }
    expect(await stage.owners()).toEqual({ holders: [two.owner(1)], pending: [] });
  });

  it('is released also when its own client alone tries to acquire', async () => {
    await stage.after(one.acquire(1, { leaseMs: SESSION_MS }));
    forget(one.store);
    expect((await stage.after(one.acquire(2))).kind).toBe('busy');
    await stage.pass(4000);
    expect((await stage.after(one.acquire(3))).kind).toBe('granted');
  });
});

/** As after a defect: neither a lane nor a lease of this client knows of its owners. */
function forget(store: LockStore): void {
  const { lanes, leases } = store as unknown as {
    lanes: { delete(name: string): void };
    leases: SessionLeases;
  };
  lanes.delete(KEY);
  leases.end(`${store.clientId}:1`);
}
