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
  type Queued,
  type ReleaseRequest,
  type Renewal,
  type RenewalReply,
} from '../../../libs/distributed-lock/src/port/lock-store.js';
import { IDLE_MS } from '../../../libs/distributed-lock/src/redis/idle-probe.js';
import { redisKeys, restartMark } from '../../../libs/distributed-lock/src/redis/keys.js';
import type { LockStoreError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import { until } from '#until';
import { RedisServer } from './server/redis-server.js';
import { type Line, type LineEvents, socketError } from './socket/line.js';
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
/** How far the clock of the servers is behind that of the client, in ms. */
let behindMs = 0;
const newServer = (replicas?: number) =>
  new RedisServer(
    {
      micros: () => Math.floor((startedAt + clock.now() - behindMs) * 1000),
      newRunId: () => randomBytes(20).toString('hex'),
      after: (ms, run) => clock.after(ms, run),
    },
    replicas,
  );
const server = newServer();
/** While it is set, what servers write gets lost on its way. */
let areRepliesLost = false;

/** What hears of the connections that are open. */
const openLines = new Set<LineEvents>();

/** All connections are lost. Resolves when there are as many again; the client of Redis waits for real time before that. */
async function breakLines(): Promise<void> {
  const before = [...openLines];
  for (const events of before) events.onError(socketError('ECONNRESET', 'read'));
  await clock.settle();
  await until(() => openLines.size === before.length);
  await clock.settle();
}

/** A connection to the server. */
function line(to = server): Line {
  let events: LineEvents | undefined;
  const client = to.connect(
    (bytes) => setImmediate(() => areRepliesLost || events?.onData(bytes)),
    () => setImmediate(() => events?.onEnd()),
  );
  const close = (): void => {
    if (events) openLines.delete(events);
    events = undefined;
    to.disconnect(client);
  };
  return {
    open: (its) => {
      events = its;
      openLines.add(its);
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
    store: redisStore(simulatedTarget('simulated', () => line())),
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
    stores = [1, 2, 3].map(() => redisStore(simulatedTarget('simulated', () => line())).create(context));
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
    store = redisStore(simulatedTarget('simulated', () => line())).create(context);
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

describe.each<Claim>([
  LOCK,
  { kind: 'exclusive' },
  { kind: 'shared' },
  { kind: 'permits', permits: 3, weight: 2 },
])('a renewal of %j, simulated', (claim) => {
  const key = 'renewed';
  const SHORT_MS = 1000;
  let store: LockStore;

  const now = async <Reply>(reply: Promise<Reply>): Promise<Reply> => {
    await clock.settle();
    return reply;
  };
  const requestOf = (number: number, leaseMs: number) =>
    ({ key, claim, owner: `${store.clientId}:${number}`, leaseMs }) as const;

  async function take(number: number, leaseMs = 30_000): Promise<Renewal> {
    const request = requestOf(number, leaseMs);
    const { token, lastToken } = (await now(
      store.acquire({ ...request, mayWait: false, ticket: 0, tokens: 5 }),
    )) as Grant;
    return { ...request, token, lastToken };
  }
  const kindOf = async (renewal: Renewal) => (await now(store.renew([renewal])))[0]?.kind;

  beforeEach(async () => {
    store = redisStore(simulatedTarget('simulated', line)).create({
      clock,
      keyPrefix: '',
      watchdogTimeoutMs: 30_000,
    });
    await clock.settle();
  });
  afterEach(async () => {
    server.execute(['FLUSHALL']);
    await store.close();
  });

  it('sets the lease anew, to longer or to shorter', async () => {
    const held = await take(1, SHORT_MS);
    expect(await kindOf({ ...held, leaseMs: 10 * SHORT_MS })).toBe('renewed');
    await clock.advance(2 * SHORT_MS);
    expect(await kindOf(held)).toBe('renewed');
    await clock.advance(2 * SHORT_MS);
    expect(await now(store.inspect(key))).toBeNull();
  });

  it('under an earlier grant of its owner is lost, and moves no lease', async () => {
    const first = await take(1, SHORT_MS);
    await clock.advance(2 * SHORT_MS);
    const second = await take(1, SHORT_MS);
    expect(second.token).toBeGreaterThan(first.token);
    expect(await kindOf({ ...first, leaseMs: 30_000 })).toBe('lost');
    await clock.advance(2 * SHORT_MS);
    expect(await now(store.inspect(key))).toBeNull();
  });

  it('of an owner that does not hold is lost, and locks nothing', async () => {
    const held = await take(1);
    expect(await kindOf({ ...held, ...requestOf(2, 30_000) })).toBe('lost');
    expect(await now(store.inspect(key))).toMatchObject({ holders: [held.owner] });
    expect(await now(store.release(held))).toBe('released');
    expect(await kindOf(held)).toBe('lost');
    expect(await now(store.inspect(key))).toBeNull();
  });
});

describe('tokens shared with Redisson, simulated', () => {
  const TOKENS = 1000;
  const counter = (key: string) => `redisson_lock_token:{${key}}`;

  /** Takes a block of tokens and uses the first. @returns the token used, and the function that releases the lock */
  async function take(key: string) {
    const store = redisStore(
      simulatedTarget('simulated', () => line()),
      { sharedTokens: true },
    ).create({
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
    const store = redisStore(
      simulatedTarget('simulated', () => line()),
      { restartGuardMs },
    ).create(context);
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

describe('renewals, simulated', () => {
  let store: LockStore;
  let owners = 0;

  async function take(key: string, claim: Claim = LOCK): Promise<Renewal> {
    owners += 1;
    const request = { key, claim, owner: `${store.clientId}:${key}${owners}`, leaseMs: 30_000 };
    const asked = store.acquire({ ...request, mayWait: false, ticket: 0, tokens: 1 });
    await clock.settle();
    const { token, lastToken } = (await asked) as Grant;
    return { ...request, token, lastToken };
  }

  beforeEach(async () => {
    const context = { clock, keyPrefix: '', watchdogTimeoutMs: 30_000 };
    store = redisStore(simulatedTarget('simulated', () => line())).create(context);
    await clock.settle();
  });
  afterEach(async () => {
    server.execute(['FLUSHALL']);
    await store.close();
    behindMs = 0;
  });

  it('of one batch report the lock as lost whose key has other data by now, and restart the others', async () => {
    const [spoiled, other] = [await take('1'), await take('2')];
    server.execute(['SET', spoiled.key, 'data of an application']);
    await clock.advance(10_000);
    const renewed = store.renew([spoiled, other]);
    await clock.settle();
    expect(await renewed).toMatchObject([{ kind: 'lost' }, { kind: 'renewed' }]);
    expect(server.execute(['PTTL', other.key])).toBe(30_000);
  });

  it('are refused while the lock is held and a key beside it has other data', async () => {
    const renewal = await take('1');
    server.execute(['DEL', redisKeys(renewal.key, 'lock')[3]]);
    server.execute(['HSET', redisKeys(renewal.key, 'lock')[3], 'data', 'of an application']);
    const renewed = store.renew([renewal]);
    await clock.settle();
    expect(await renewed).toMatchObject([{ kind: 'unknown', error: { reason: 'refused' } }]);
  });

  it.each([
    ['a lock', LOCK, { kind: 'permits', weight: 1, permits: 3 }],
    ['the part of a writer', { kind: 'exclusive' }, { kind: 'permits', weight: 1, permits: 3 }],
    ['a permit', { kind: 'permits', weight: 1, permits: 3 }, LOCK],
  ] as const)(
    'report %s as lost whose key is in use as the other kind after a loss of data',
    async (_, claim, another) => {
      const renewal = await take('1', claim);
      server.execute(['FLUSHALL']);
      await take('1', another);
      const renewed = store.renew([renewal]);
      await clock.settle();
      expect(await renewed).toMatchObject([{ kind: 'lost' }]);
    },
  );

  async function renewUnanswered(renewal: Renewal): Promise<void> {
    areRepliesLost = true;
    const unanswered = store.renew([renewal]);
    await clock.settle();
    areRepliesLost = false;
    await breakLines();
    expect(await unanswered).toMatchObject([{ kind: 'unknown' }]);
  }

  it.each([
    ['is slow', 9],
    ['was set back meanwhile', 2000],
  ])(
    'have the length that they ask for, although a shorter one is unanswered and the clock of the server %s',
    async (_, setBackMs) => {
      const renewal = await take('1');
      await renewUnanswered({ ...renewal, leaseMs: 1000 });
      const longer = store.renew([{ ...renewal, leaseMs: 30_000 }]);
      await clock.settle();
      behindMs = setBackMs;
      await clock.advance(store.commandTimeoutMs + 1);
      await clock.advance(setBackMs);
      await clock.settle();
      const [reply] = (await longer) as [Extract<RenewalReply, { kind: 'renewed' }>];
      expect(reply.validUntil - clock.now()).toBeGreaterThan(29_000);
    },
  );

  it('are not sure if the clock of the server was set back by more than the lease', async () => {
    const renewal = await take('1');
    await renewUnanswered({ ...renewal, leaseMs: 1000 });
    behindMs = 3_600_000;
    const longer = store.renew([{ ...renewal, leaseMs: 30_000 }]);
    await clock.settle();
    expect(await longer).toMatchObject([{ kind: 'unknown' }]);
  });

  it('are not repeated for the sake of an unanswered one if a newer one asks for less', async () => {
    const renewal = await take('1');
    await renewUnanswered({ ...renewal, leaseMs: 1000 });
    const longer = store.renew([{ ...renewal, leaseMs: 30_000 }]);
    await clock.settle();
    const shorter = store.renew([{ ...renewal, leaseMs: 900 }]);
    await clock.advance(store.commandTimeoutMs + 10);
    expect(await Promise.all([longer, shorter])).toMatchObject([
      [{ kind: 'renewed' }],
      [{ kind: 'renewed' }],
    ]);
    expect(server.execute(['PTTL', renewal.key])).toBeLessThanOrEqual(900);
  });
});

describe('a grant that replicas must have, simulated', () => {
  const key = 'replicated';
  const stores: LockStore[] = [];
  let replicated: RedisServer;

  beforeEach(() => {
    replicated = newServer(1);
  });

  async function open(minReplicaAcks: number): Promise<LockStore> {
    const target = simulatedTarget('simulated', () => line(replicated));
    const context = { clock, keyPrefix: '', watchdogTimeoutMs: 30_000 };
    const store = redisStore(target, { minReplicaAcks }).create(context);
    stores.push(store);
    await clock.settle();
    return store;
  }

  afterEach(async () => {
    await Promise.all(stores.splice(0).map((store) => store.close()));
  });

  it('by notification counts only with them, also for an owner whose last recheck was refused', async () => {
    const [holder, waiter] = [await open(0), await open(1)];
    const requestOf = ({ clientId }: LockStore) =>
      ({ key, claim: LOCK, owner: `${clientId}:1`, leaseMs: 30_000 }) as const;
    const now = async <Reply>(reply: Promise<Reply>): Promise<Reply> => {
      await clock.settle();
      return reply;
    };
    const ask = (store: LockStore, mayWait: boolean, ticket = 0) =>
      now(store.acquire({ ...requestOf(store), mayWait, ticket, tokens: 1 }));
    await ask(holder, false);
    const queued = (await ask(waiter, true)) as Queued;
    expect((await ask(waiter, false, queued.ticket)).kind).toBe('busy');
    const told: Notification[] = [];
    waiter.notifications$.subscribe((notification) => told.push(notification));
    await now(holder.release(requestOf(holder)));
    const { token, lastToken } = told.find(({ kind }) => kind === 'granted') as Notification & Grant;
    const renewed = waiter.renew([{ ...requestOf(waiter), token, lastToken }]);
    await clock.advance(1000);
    expect(await renewed).toMatchObject([{ kind: 'unknown' }]);
    // As soon as the replica has it, the same renewal counts.
    replicated.replicas.acknowledge(0, Infinity);
    expect(await now(waiter.renew([{ ...requestOf(waiter), token, lastToken }]))).toMatchObject([
      { kind: 'renewed' },
    ]);
  });

  it('does not count if its connection is lost before they are counted: the next one may lead to another master', async () => {
    const store = await open(1);
    const outcomes = ['lost 1', 'lost 2'].map((name, i) => {
      const request = { key: name, claim: LOCK, owner: `${store.clientId}:${i + 1}`, leaseMs: 30_000 };
      return store.acquire({ ...request, mayWait: false, ticket: 0, tokens: 1 }).then(
        ({ kind }) => kind,
        (error: LockStoreError) => error.reason,
      );
    });
    // One count is under way, and the other one waits for it.
    await clock.settle();
    await breakLines();
    replicated.replicas.acknowledge(0, Infinity);
    await clock.settle();
    expect(await Promise.all(outcomes)).toEqual(['unknown', 'unknown']);
  });
});

describe('an acquire that the server refuses when it comes again, simulated', () => {
  it('is released, because the copy without a reply may have acquired the lock', async () => {
    const key = 'twice';
    const context = { clock, keyPrefix: '', watchdogTimeoutMs: 30_000 };
    const store = redisStore(simulatedTarget('simulated', () => line())).create(context);
    await clock.settle();
    // Only on a connection that may have been forgotten a command is sent twice.
    await clock.advance(2 * IDLE_MS);
    areRepliesLost = true;
    const request = { key, claim: LOCK, owner: `${store.clientId}:1`, leaseMs: 30_000 };
    const asked = store.acquire({ ...request, mayWait: false, ticket: 0, tokens: 1 });
    const reason = asked.catch((error: LockStoreError) => error.reason);
    await clock.settle();
    expect(server.execute(['EXISTS', key])).toBe(1);
    server.execute(['SET', `nest_lock_queue:{${key}}`, 'data of an application']);
    areRepliesLost = false;
    await breakLines();
    expect(await reason).toBe('refused');
    await clock.settle();
    expect(server.execute(['EXISTS', key])).toBe(0);
    server.execute(['FLUSHALL']);
    await store.close();
  });
});
