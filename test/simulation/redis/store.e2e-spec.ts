import { randomBytes } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { redisStore } from 'nestjs-distributed-lock/redis';
import { describeLockStoreContract, ManualClock } from 'nestjs-distributed-lock/testing';
import {
  type Claim,
  type Grant,
  LOCK,
  type LockStore,
  type Notification,
  type ReleaseRequest,
  type Renewal,
} from '../../../libs/distributed-lock/src/port/lock-store.js';
import { restartMark } from '../../../libs/distributed-lock/src/redis/keys.js';
import type { LockStoreError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import { RedisServer } from './server/redis-server.js';
import type { Line, LineEvents } from './socket/line.js';
import { simulatedTarget } from './socket/connector.js';

/** How many turns of the event loop a command, its reply and what follows from them take. */
const TURNS = 12;

/** Moves the client and the server alike, so that a busy machine does not let a lease run out. */
class SharedClock extends ManualClock {
  override async settle(): Promise<void> {
    for (let i = 0; i < TURNS; i += 1) await turn();
  }
}

const clock = new SharedClock();
const startedAt = Date.now();
const server = new RedisServer({
  micros: () => Math.floor((startedAt + clock.now()) * 1000),
  newRunId: () => randomBytes(20).toString('hex'),
  after: (ms, run) => clock.after(ms, run),
});

/** A connection without any fault. */
function line(): Line {
  let events: LineEvents | undefined;
  const client = server.connect(
    (bytes) => setImmediate(() => events?.onData(bytes)),
    () => setImmediate(() => events?.onEnd()),
  );
  const close = (): void => {
    events = undefined;
    server.disconnect(client);
  };
  return {
    open: (its) => {
      events = its;
      setImmediate(() => events?.onConnect());
    },
    write: (bytes) => setImmediate(() => events && client.receive(bytes)),
    end: () => setImmediate(() => events?.onEnd()),
    destroy: close,
  };
}

describeLockStoreContract(
  'redis, simulated',
  () => ({
    store: redisStore(simulatedTarget('simulated', line)),
    clock,
    pass: (ms) => clock.advance(ms),
  }),
  {
    'keys that are held or waited for are listed in pages, as inspect tells of them, and no others':
      'the simulated server has no SCAN',
    'a prefix or a cursor that no key can have lists nothing, or is refused as such a key is':
      'the simulated server has no SCAN',
  },
);

describe('the queue of a key, simulated', () => {
  const key = 'places';
  let stores: readonly LockStore[];
  let holder: LockStore;
  let client: LockStore;
  let stranger: LockStore;
  let claim: Claim = LOCK;

  const requestOf = (store: LockStore, number: number, leaseMs = 30_000) =>
    ({ key, claim, owner: `${store.clientId}:${number}`, leaseMs }) as const;

  async function ask(...of: Parameters<typeof requestOf>): Promise<string> {
    const reply = of[0].acquire({ ...requestOf(...of), mayWait: true, ticket: 0, tokens: 1 });
    await clock.settle();
    return (await reply).kind;
  }

  async function release(more: Partial<ReleaseRequest> = {}, by = holder): Promise<void> {
    const released = by.release({ ...requestOf(by, 1), ...more });
    await clock.settle();
    await released;
  }

  /** Two owners of one client wait behind the holder, and behind them a stranger. */
  async function queueUp(): Promise<void> {
    await ask(holder, 1);
    await ask(client, 1, 2000);
    await ask(client, 2);
    await ask(stranger, 1);
  }

  beforeEach(async () => {
    const context = { clock, keyPrefix: '', watchdogTimeoutMs: 30_000 };
    stores = [1, 2, 3].map(() => redisStore(simulatedTarget('simulated', line)).create(context));
    [holder, client, stranger] = stores as [LockStore, LockStore, LockStore];
    claim = LOCK;
    await clock.settle();
    await queueUp();
  });
  afterEach(async () => {
    server.execute(['FLUSHALL']);
    await Promise.all(stores.map((store) => store.close()));
  });

  it('is left by all owners of a client that does not confirm a grant', async () => {
    await release();
    await clock.advance(1100);
    expect([await ask(stranger, 1), await ask(client, 2)]).toEqual(['granted', 'queued']);
  });

  it('keeps the places of other owners of a client whose recheck has confirmed a grant, when its lease is over', async () => {
    await release();
    expect(await ask(client, 1, 2000)).toBe('granted');
    await clock.advance(2100);
    expect([await ask(stranger, 1), await ask(client, 2)]).toEqual(['queued', 'granted']);
  });

  it('keeps their places, too, if a renewal has confirmed the grant', async () => {
    const told: Notification[] = [];
    client.notifications$.subscribe((notification) => told.push(notification));
    await release();
    const { token, lastToken } = told.find(({ kind }) => kind === 'granted') as Notification & Grant;
    const renewed = client.renew([{ ...requestOf(client, 1, 2000), token, lastToken }]);
    await clock.settle();
    expect(await renewed).toMatchObject([{ kind: 'renewed' }]);
    await clock.advance(2100);
    expect([await ask(stranger, 1), await ask(client, 2)]).toEqual(['queued', 'granted']);
  });

  it.each<Claim>([LOCK, { kind: 'exclusive' }])(
    'keeps their places if the owner gives up its grant before it has confirmed it: $kind',
    async (kind) => {
      server.execute(['FLUSHALL']);
      claim = kind;
      await queueUp();
      await release();
      await release({}, client);
      expect([await ask(stranger, 1), await ask(client, 2)]).toEqual(['queued', 'granted']);
    },
  );

  it('is served although it was the turn of foreign clients when the clock of the server was set back', async () => {
    const turnUntil = startedAt + clock.now() + 3_600_000;
    server.execute(['HSET', `nest_lock_meta:{${key}}`, 'foreign_turn_until', String(turnUntil)]);
    server.execute(['DEL', key]);
    expect(await ask(client, 1)).toBe('granted');
  });

  it('begins with an owner that is told to recheck at the end of a minimum hold', async () => {
    const told: Notification[] = [];
    client.notifications$.subscribe((notification) => told.push(notification));
    await release({ holdUntil: clock.now() + 700 });
    expect(told).toEqual([{ kind: 'recheck', owner: requestOf(client, 1).owner, afterMs: 700 }]);
  });
});

describe('a renewal of a plain lock that the server executes after its owner has downgraded, simulated', () => {
  const context = { clock, keyPrefix: '', watchdogTimeoutMs: 30_000 };
  const SHARED = { kind: 'shared' } as const;
  let store: LockStore;
  let late: Renewal;
  let other: Renewal;

  const now = async <Reply>(reply: Promise<Reply>): Promise<Reply> => {
    await clock.settle();
    return reply;
  };

  async function take(key: string, number: number, claim: Claim = LOCK): Promise<Renewal> {
    const request = { key, claim, owner: `${store.clientId}:${number}`, leaseMs: 30_000 };
    const reply = await now(store.acquire({ ...request, mayWait: true, ticket: 0, tokens: 1 }));
    const { token, lastToken } = reply as Grant;
    return { ...request, token, lastToken };
  }

  beforeEach(async () => {
    store = redisStore(simulatedTarget('simulated', line)).create(context);
    await clock.settle();
    late = await take('shared-by-now', 1);
    other = await take('plain', 2);
    await now(store.renew([{ ...late, claim: SHARED }]));
    // The newest token of the key is now that of another reader.
    await take('shared-by-now', 3, SHARED);
  });
  afterEach(async () => {
    server.execute(['FLUSHALL']);
    await store.close();
  });

  it('reports no loss, and leaves the lock shared', async () => {
    expect(await now(store.renew([late]))).toMatchObject([{ kind: 'renewed' }]);
    expect(await now(store.inspect('shared-by-now'))).toMatchObject({
      mode: 'shared',
      holders: { length: 2 },
    });
  });

  it('reports no loss among the renewals of several locks either', async () => {
    expect(await now(store.renew([late, other]))).toMatchObject([{ kind: 'renewed' }, { kind: 'renewed' }]);
  });
});

describe('tokens shared with Redisson, simulated', () => {
  const TOKENS = 1000;
  const counter = (key: string) => `redisson_lock_token:{${key}}`;

  /** Takes a block of tokens and uses the first. @returns the token used, and the function that releases the lock */
  async function take(key: string) {
    const store = redisStore(simulatedTarget('simulated', line), { sharedTokens: true }).create({
      clock,
      keyPrefix: '',
      watchdogTimeoutMs: 30_000,
    });
    const owner = `${store.clientId}:1`;
    const request = { key, claim: { kind: 'lock' }, owner, leaseMs: 30_000 } as const;
    const asked = store.acquire({ ...request, mayWait: false, ticket: 0, tokens: TOKENS });
    await clock.settle();
    const { token, lastToken } = (await asked) as Grant;
    expect(lastToken).toBe(token + TOKENS - 1);
    const release = async () => {
      const released = store.release({ ...request, used: { token, lastToken } });
      await clock.settle();
      expect(await released).toBe('released');
      await store.close();
    };
    return { token, lastToken, release };
  }

  it('stand at the last token used after each release, and the next grant continues from there', async () => {
    let last: number | undefined;
    for (let i = 0; i < 20; i += 1) {
      const { token, release } = await take('block');
      expect(token).toBe(last === undefined ? token : last + 1);
      await release();
      expect(server.execute(['GET', counter('block')])).toBe(String(token));
      last = token;
    }
  });

  it('stay where Redisson has counted on during the hold', async () => {
    const { lastToken, release } = await take('counted');
    expect(server.execute(['INCRBY', counter('counted'), '1'])).toBe(lastToken + 1);
    await release();
    expect(server.execute(['GET', counter('counted')])).toBe(String(lastToken + 1));
    expect((await take('counted')).token).toBe(lastToken + 2);
  });
});

describe('the restart guard, simulated', () => {
  const GUARD_MS = 30_000;
  const stores: LockStore[] = [];

  /** What a client with this guard is told when it asks for a free key. */
  async function ask(restartGuardMs: number): Promise<string> {
    const context = { clock, keyPrefix: '', watchdogTimeoutMs: GUARD_MS };
    const store = redisStore(simulatedTarget('simulated', line), { restartGuardMs }).create(context);
    stores.push(store);
    await clock.settle();
    const request = { key: `guarded ${stores.length}`, claim: LOCK, owner: `${store.clientId}:1` };
    const asked = store.acquire({ ...request, leaseMs: GUARD_MS, mayWait: false, ticket: 0, tokens: 1 });
    const reply = asked.then(
      ({ kind }) => kind,
      (error: LockStoreError) => error.reason,
    );
    await clock.settle();
    return reply;
  }

  afterEach(async () => {
    server.execute(['FLUSHALL']);
    await Promise.all(stores.splice(0).map((store) => store.close()));
  });

  it('grants nothing on a server without data before all leases are over that it may have forgotten', async () => {
    expect(await ask(GUARD_MS)).toBe('unready');
    await clock.advance(GUARD_MS - 1);
    expect(await ask(GUARD_MS)).toBe('unready');
    await clock.advance(1);
    expect(await ask(GUARD_MS)).toBe('granted');
  });

  it('waits for the longest leases of all clients, also of one that comes later', async () => {
    expect(await ask(GUARD_MS)).toBe('unready');
    await clock.advance(GUARD_MS);
    expect([await ask(GUARD_MS), await ask(2 * GUARD_MS)]).toEqual(['granted', 'unready']);
    await clock.advance(GUARD_MS - 1);
    expect([await ask(GUARD_MS), await ask(2 * GUARD_MS)]).toEqual(['unready', 'unready']);
    await clock.advance(1);
    expect([await ask(GUARD_MS), await ask(2 * GUARD_MS)]).toEqual(['granted', 'granted']);
  });

  it('does not wait for hours if the clock of the server was set back since', async () => {
    const hours = startedAt + clock.now() + 3_600_000;
    expect(await ask(GUARD_MS)).toBe('unready');
    server.execute(['SET', restartMark(''), `${hours} ${GUARD_MS}`]);
    expect(await ask(GUARD_MS)).toBe('unready');
    await clock.advance(GUARD_MS);
    expect(await ask(GUARD_MS)).toBe('granted');
  });
});
