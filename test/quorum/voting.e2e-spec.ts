import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { quorumStore } from 'nestjs-distributed-lock/quorum';
import type { Faults } from 'nestjs-distributed-lock/testing';
import { memoryStore } from '../../libs/distributed-lock/src/memory/store.js';
import { LOCK } from '../../libs/distributed-lock/src/port/lock-store.js';
import type {
  AcquireRequest,
  Grant,
  LockSnapshot,
  LockStore,
  LockStoreFactory,
  Notification,
} from '../../libs/distributed-lock/src/port/lock-store.js';
import { leaseMargin, leaseValidity } from '../../libs/distributed-lock/src/port/timing.js';
import { storeThatCan } from '../../libs/distributed-lock/src/port/capabilities.js';
import { failureOf } from '../support/lock-services.js';
import { follow } from '../support/lock-world.js';
import { drifting } from './drifting-node.js';
import { QuorumWorld } from './quorum-world.js';

const LEASE_MS = 10_000;
const NODE_TIMEOUT_MS = 100;
/** After which a lease that came while the lock was held counts for it. */
const CONFIRM_MS = 100;

let world: QuorumWorld;
let owners = 0;
let client: LockStore;
beforeEach(() => {
  world = new QuorumWorld();
  client = world.client();
});
afterEach(() => world.close());

/** What every command of the tests says, apart from what matters to one. */
function asker(client: LockStore, key = 'k', more: Partial<AcquireRequest> = {}): AcquireRequest {
  const owner = `${client.clientId}:${++owners}`;
  return { key, owner, claim: LOCK, leaseMs: LEASE_MS, mayWait: false, ticket: 0, tokens: 1, ...more };
}

async function granted(reply: Promise<{ kind: string }>): Promise<Grant> {
  const answer = follow(reply);
  for (let i = 0; i < 50 && answer.state === 'pending'; i++) await world.clock.advance(10);
  expect(answer.value.kind).toBe('granted');
  return answer.value as Grant;
}

async function holders(): Promise<number> {
  const seen = await Promise.all(world.faults.map((_, node) => world.eye(node).inspect('k')));
  return seen.filter((snapshot) => snapshot !== null).length;
}

describe('a quorum', () => {
  it('believes in a grant from the moment of asking, for as long as a majority of its leases lasts', async () => {
    world.faults[1]!.command = () => ({ repliedAfterMs: 60 });
    world.faults[2]!.command = () => ({ repliedAfterMs: 90 });
    const askedAt = world.clock.now();
    const { validUntil } = await granted(client.acquire(asker(client)));
    expect(validUntil).toBe(leaseValidity(askedAt, LEASE_MS));
    expect(world.clock.now()).toBeGreaterThanOrEqual(60);
  });

  it('keeps a lock through ten million owners of its client', async () => {
    const first = asker(client, 'first', { owner: `${client.clientId}:7` });
    const later = asker(client, 'later', { owner: `${client.clientId}:10000007` });
    const { token, lastToken } = await granted(client.acquire(first));
    await granted(client.acquire(later));
    await client.release(later);
    const [reply] = await client.renew([{ ...first, token, lastToken }]);
    expect(reply?.kind).toBe('renewed');
    expect((await client.inspect('first'))?.holders).toEqual([first.owner]);
  });

  it('is answered by a majority, and does not wait for the others', async () => {
    world.cut(2);
    const reply = follow(client.acquire(asker(client)));
    await world.clock.settle();
    expect(reply.value.kind).toBe('granted');
  });

  it('lets an owner that waits already wait at the nodes that have lost their queues, however many wait there by now', async () => {
    const holder = asker(client);
    const waiter = world.client();
    await granted(client.acquire(holder));
    const asked = follow(waiter.acquire(asker(waiter, 'k', { mayWait: true, maxWaiting: 1 })));
    await world.clock.settle();
    expect(asked.value).toMatchObject({ kind: 'queued', waiting: 0 });
    for (const node of [1, 2]) {
      const eye = world.eye(node);
      const { pending, holders: before } = (await eye.inspect('k')) as LockSnapshot;
      for (const owner of [...pending, ...before]) await eye.release(asker(eye, 'k', { owner }));
      await granted(eye.acquire(asker(eye)));
      await eye.acquire(asker(eye, 'k', { mayWait: true }));
    }
    // The only node that has kept its queue grants, and so the owner asks all of them once more.
    await client.release(holder);
    await world.clock.settle();
    for (const node of [1, 2]) expect((await world.eye(node).inspect('k'))?.pending).toHaveLength(2);
  });

  it('is extended by a reply that comes after the time at which late leases are confirmed', async () => {
    const eye = world.eye(2);
    const far = asker(eye, 'k', { tokens: 10_000_000 });
    await granted(eye.acquire(far));
    await eye.release(far);
    world.faults[2]!.command = () => ({ repliedAfterMs: 60 });
    const ask = asker(client, 'k', { leaseMs: 1000 });
    const { token, lastToken } = await granted(client.acquire(ask));
    await world.clock.advance(CONFIRM_MS + 40);
    for (const faults of world.faults) faults.command = () => ({ repliedAfterMs: 60 });
    const askedAt = world.clock.now();
    const extended = follow(client.renew([{ ...ask, leaseMs: LEASE_MS, token, lastToken }]));
    await world.clock.advance(80);
    expect(extended.value).toMatchObject([{ kind: 'renewed', validUntil: leaseValidity(askedAt, LEASE_MS) }]);
  });

  it('is extended for as long as the extension says, though nodes answer an earlier renewal after it', async () => {
    const ask = asker(client, 'k', { leaseMs: 1000 });
    const { token, lastToken } = await granted(client.acquire(ask));
    const renewed = (leaseMs: number) => follow(client.renew([{ ...ask, leaseMs, token, lastToken }]));
    for (const faults of world.faults) faults.command = () => ({ repliedAfterMs: 60 });
    const earlier = renewed(1000);
    await world.clock.advance(10);
    const repliedAfterMs = [20, 80, 'never'] as const;
    world.faults.forEach((faults, i) => (faults.command = () => ({ repliedAfterMs: repliedAfterMs[i]! })));
    const askedAt = world.clock.now();
    const extended = renewed(LEASE_MS);
    await world.clock.advance(90);
    const validUntil = leaseValidity(askedAt, LEASE_MS);
    expect(earlier.value).toMatchObject([{ kind: 'renewed' }]);
    expect(extended.value).toMatchObject([{ kind: 'renewed', validUntil }]);
  });

  it('renews by a majority: what the others were renewed to before does not count', async () => {
    const ask = asker(client);
    const { token, lastToken } = await granted(client.acquire(ask));
    await world.clock.advance(1000);
    world.cut(2);
    const askedAt = world.clock.now();
    const [reply] = await client.renew([{ ...ask, token, lastToken }]);
    expect(reply).toMatchObject({ kind: 'renewed', validUntil: leaseValidity(askedAt, LEASE_MS) });
  });

  it('does not know whether a lock was renewed when a majority is silent, and names the silent ones', async () => {
    const ask = asker(client);
    const { token, lastToken } = await granted(client.acquire(ask));
    world.cut(0);
    world.cut(2);
    const renewal = follow(client.renew([{ ...ask, token, lastToken }]));
    await world.clock.advance(NODE_TIMEOUT_MS);
    expect(renewal.value[0]).toMatchObject({ kind: 'unknown' });
    expect(String((renewal.value[0] as { error: Error }).error.message)).toMatch(
      /^1 of 3 nodes answered, 2 are needed\. node 1 \(memory\): .*; node 3 \(memory\): /,
    );
  });

  it('has lost a lock when a majority has forgotten it', async () => {
    const ask = asker(client);
    const { token, lastToken } = await granted(client.acquire(ask));
    world.forget(0);
    expect(await client.renew([{ ...ask, token, lastToken }])).toMatchObject([{ kind: 'renewed' }]);
    world.forget(1);
    world.forget(2);
    expect(await client.renew([{ ...ask, token, lastToken }])).toEqual([{ kind: 'lost' }]);
  });

  it('is seen as a reader by all once a majority knows that it has stepped down', async () => {
    const ask = { ...asker(client), claim: { kind: 'exclusive' } as const };
    const { token, lastToken } = await granted(client.acquire(ask));
    world.cut(0);
    const stepDown = follow(client.renew([{ ...ask, claim: { kind: 'shared' }, token, lastToken }]));
    await world.clock.advance(1000);
    expect(stepDown.value).toMatchObject([{ kind: 'renewed' }]);
    world.mend(0);
    expect(await world.client().inspect('k')).toMatchObject({ mode: 'shared' });
  });

  it('takes a node that forgot back in with the next renewal, so that others may forget later', async () => {
    const ask = asker(client);
    const { token, lastToken } = await granted(client.acquire(ask));
    for (const node of [0, 1, 2, 0]) {
      world.forget(node);
      expect(await client.renew([{ ...ask, token, lastToken }])).toMatchObject([{ kind: 'renewed' }]);
      await world.clock.settle();
      expect(await holders()).toBe(3);
      await world.clock.advance(CONFIRM_MS);
    }
  });

  it.each([
    [1, 'stays away', false],
    [2, 'stays away', false],
    [1, 'comes back without its data', true],
    [2, 'comes back without its data', true],
  ])(
    'keeps a lock when node %i dies before the grant of node 3 arrives, and %s',
    async (dying, _, isBack) => {
      const isLate = ({ kind }: { kind: string }) => (kind === 'acquire' ? { repliedAfterMs: 5 } : undefined);
      world.faults[2]!.command = isLate;
      const ask = asker(client);
      const { token, lastToken } = await granted(client.acquire(ask));
      world.cut(dying - 1);
      world.forget(dying - 1);
      await world.clock.advance(10);
      if (isBack) world.mend(dying - 1);
      const askedAt = world.clock.now();
      const renewal = follow(client.renew([{ ...ask, token, lastToken }]));
      await world.clock.advance(NODE_TIMEOUT_MS);
      expect(renewal.value).toMatchObject([
        { kind: 'renewed', validUntil: leaseValidity(askedAt, LEASE_MS) },
      ]);
    },
  );

  it('counts a late grant soon, so that the lock survives the failure of either node that had answered first', async () => {
    world.faults[2]!.command = ({ kind }) => (kind === 'acquire' ? { executedAfterMs: [5] } : undefined);
    const ask = asker(client);
    const { token, lastToken } = await granted(client.acquire(ask));
    await world.clock.advance(5 + CONFIRM_MS);
    world.cut(0);
    const renewal = follow(client.renew([{ ...ask, token, lastToken }]));
    await world.clock.advance(NODE_TIMEOUT_MS);
    expect(renewal.value).toMatchObject([{ kind: 'renewed' }]);
  });

  it.each([
    ['answers', false],
    ['is silent', true],
  ])(
    'has lost a lock that was freed by force and held by another owner before a late grant made up a majority, where the freed node %s when the late lease is to count',
    async (_, isSilent) => {
      const faults: Faults[] = [{}, {}, {}];
      const holder = world.clientBehind(faults);
      for (const network of faults) network.notification = () => [];
      const cutOff: Faults = { command: () => ({ executedAfterMs: [], repliedAfterMs: 'never' }) };
      const rival = world.clientBehind([{}, cutOff, {}]);
      await granted(rival.acquire(asker(rival, 'learns that node 2 is down')));
      await world.clock.advance(NODE_TIMEOUT_MS);

      faults[0]!.command = ({ kind }) => (kind === 'acquire' ? { executedAfterMs: [50] } : undefined);
      const ask = asker(holder);
      const { token, lastToken } = await granted(holder.acquire(ask));
      await storeThatCan(world.eye(2), 'force').forceRelease('k');
      const held = asker(rival);
      await granted(rival.acquire(held));
      await rival.release(held);
      if (isSilent) faults[2]!.command = cutOff.command;
      await world.clock.advance(50 + CONFIRM_MS + NODE_TIMEOUT_MS);
      delete cutOff.command;
      delete faults[2]!.command;
      expect(await holders()).toBe(2);
      expect(await holder.renew([{ ...ask, token, lastToken }])).toEqual([{ kind: 'lost' }]);
    },
  );

  it('ends a minimum hold by force also at the node that the force did not reach', async () => {
    const locks = world.service();
    const acquired = follow(locks.acquire('k', { holdAtLeastMs: LEASE_MS }));
    await world.clock.advance(10);
    for (const node of [0, 1]) await storeThatCan(world.eye(node), 'force').forceRelease('k');
    await world.clock.advance(10);
    expect(acquired.value.signal.aborted).toBe(true);
    expect(await holders()).toBe(0);
  });

  it('gives back what a failed round took, also by answers that come late', async () => {
    world.faults[0]!.command = ({ kind }) => (kind === 'acquire' ? { repliedAfterMs: 80 } : undefined);
    world.faults[1]!.command = ({ kind }) =>
      kind === 'acquire' ? { executedAfterMs: [70], repliedAfterMs: 'never' } : undefined;
    world.cut(2);
    const failure = failureOf(client.acquire(asker(client)));
    await world.clock.advance(NODE_TIMEOUT_MS);
    expect(await failure).toMatchObject({ code: 'LOCK_STORE', reason: 'unknown' });
    world.mend(2);
    await world.clock.advance(5 * NODE_TIMEOUT_MS);
    expect(await holders()).toBe(0);
  });

  it('is released as soon as a majority has let go, a node that hangs or not', async () => {
    const ask = asker(client);
    await granted(client.acquire(ask));
    await world.clock.settle();
    world.cut(1);
    const ended = follow(client.release(ask));
    await world.clock.advance(NODE_TIMEOUT_MS);
    expect(ended.value).toBe('released');
  });

  it('leaves nothing behind where it was told "busy"', async () => {
    const [holder, other] = [world.client(), world.client()];
    await granted(holder.acquire(asker(holder)));
    world.forget(2);
    const reply = follow(other.acquire(asker(other)));
    await world.clock.advance(1000);
    expect(reply.value).toMatchObject({ kind: 'busy' });
    expect(await world.eye(2).inspect('k')).toBeNull();
  });

  it('tries again when the leases of a majority are over as their grants arrive', async () => {
    for (const faults of world.faults) faults.command = () => ({ repliedAfterMs: 95 });
    const reply = granted(client.acquire(asker(client, 'k', { leaseMs: 100 })));
    await world.clock.advance(96);
    for (const node of [0, 1, 2]) world.mend(node);
    expect((await reply).validUntil).toBeGreaterThan(world.clock.now());
  });

  it('names the holder whom a majority names, whichever node answers first', async () => {
    const [holder, other] = [world.client(), world.client()];
    await world.eye(0).acquire(asker(world.eye(0)));
    const held = asker(holder);
    await granted(holder.acquire(held));
    world.faults[2]!.command = () => ({ executedAfterMs: [5] });
    const reply = follow(other.acquire(asker(other)));
    await world.clock.advance(50);
    expect(reply.value).toMatchObject({ kind: 'busy', holder: held.owner });
  });

  it('sends a node the next acquire of an owner when it has answered the last one', async () => {
    let sent = 0;
    world.faults[2]!.command = ({ kind }) => {
      if (kind === 'acquire') sent += 1;
      return { repliedAfterMs: 50 };
    };
    const ask = asker(client);
    const first = await granted(client.acquire(ask));
    const again = granted(client.acquire(ask));
    await world.clock.settle();
    expect(sent).toBe(1);
    expect((await again).token).toBe(first.token);
    expect(sent).toBe(2);
  });

  it.each([[[0]], [[1]], [[2]], [[0, 1]], [[0, 2]], [[1, 2]], [[0, 1, 2]]])(
    'keeps a lock whose owner asks once more while nodes %j are silent, however far their counters are apart',
    async (silent) => {
      await world.eye(1).acquire(asker(world.eye(1), 'ahead', { tokens: 5_000_000 }));
      const ask = asker(client, 'k', { mayWait: true });
      const { token, lastToken } = await granted(client.acquire(ask));
      for (const node of silent) world.cut(node);
      const again = follow(client.acquire(ask));
      await world.clock.advance(3 * NODE_TIMEOUT_MS);
      expect(again.value).toMatchObject({ kind: 'granted', token });
      for (const node of silent) world.mend(node);
      const renewal = follow(client.renew([{ ...ask, token, lastToken }]));
      await world.clock.advance(NODE_TIMEOUT_MS);
      expect(renewal.value).toMatchObject([{ kind: 'renewed' }]);
    },
  );

  it('lets one of several win that have split the votes', async () => {
    const clients = [0, 1, 2].map((first) => {
      // Each of them reaches another node sooner than the others.
      const faults = world.faults.map((_, node) => ({
        command: () => ({ executedAfterMs: [node === first ? 0 : 5] }),
      }));
      return world.clientBehind(faults);
    });
    const pushed: Notification[] = [];
    const asks = clients.map((client) => asker(client, 'k', { mayWait: true }));
    clients.forEach((client) => client.notifications$.subscribe((push) => pushed.push(push)));
    const replies = clients.map((client, i) => follow(client.acquire(asks[i] as AcquireRequest)));
    await world.clock.advance(10);
    expect(replies.map(({ value }) => value.kind)).toEqual(['queued', 'queued', 'queued']);
    await world.clock.advance(200);
    expect(pushed.filter(({ kind }) => kind === 'granted')).toHaveLength(1);
  });

  it('has those recheck soon that have split the votes, because notifications of nodes may be lost', async () => {
    const clients = [0, 1, 2].map((first) =>
      world.clientBehind(
        world.faults.map((_, node) => ({
          command: () => ({ executedAfterMs: [node === first ? 0 : 5] }),
          notification: () => [],
        })),
      ),
    );
    const asks = clients.map((client) => asker(client, 'k', { mayWait: true }));
    const told = new Set<string | undefined>();
    clients.forEach((client, i) => {
      client.notifications$.subscribe(({ kind, owner }) => kind === 'recheck' && told.add(owner));
      void client.acquire(asks[i] as AcquireRequest);
    });
    await world.clock.advance(100);
    expect(told).toEqual(new Set(asks.map(({ owner }) => owner)));
  });

  it('lets a waiter behind a holder recheck no sooner, though a node that the holder lacks grants it the lock', async () => {
    const holder = world.clientBehind([
      {},
      {},
      { command: () => ({ repliedAfterMs: 'never', executedAfterMs: [] }) },
    ]);
    await granted(holder.acquire(asker(holder)));
    const waiter = asker(client, 'k', { mayWait: true });
    const rechecks: Notification[] = [];
    client.notifications$.subscribe((it) => it.kind === 'recheck' && rechecks.push(it));
    const asked = follow(client.acquire(waiter));
    await world.clock.advance(500);
    expect(asked.value).toMatchObject({ kind: 'queued', holder: expect.stringContaining(holder.clientId) });
    // It has given the node back, which would grant it the lock at each recheck.
    expect(await world.eye(2).inspect('k')).toBeNull();
    expect(rechecks).toEqual([]);
  });

  it('grants to nobody else while a holder believes, though the clocks of the nodes differ by almost 1 %', async () => {
    for (const speed of [1.009, 0.991]) {
      await world.close();
      world = new QuorumWorld(3, () => drifting(memoryStore(), speed));
      const [holder, rival] = [world.client(), world.client()];
      const { validUntil } = await granted(holder.acquire(asker(holder)));
      await world.clock.advance(validUntil - world.clock.now() - 1);
      expect(await rival.acquire(asker(rival))).toMatchObject({ kind: 'busy' });
      await world.clock.advance(2 * leaseMargin(LEASE_MS) + 1);
      expect(await rival.acquire(asker(rival))).toMatchObject({ kind: 'granted' });
    }
  });

  it('lets a rival in beside a holder when a node restarts empty and answers too soon, and not when it re-joins late', async () => {
    for (const [awayMs, isHole] of [
      [NODE_TIMEOUT_MS, true],
      [LEASE_MS, false],
    ] as const) {
      await world.close();
      world = new QuorumWorld();
      const [holder, rival] = [world.client(), world.client()];
      world.cut(2);
      const { validUntil } = await granted(holder.acquire(asker(holder)));
      world.cut(0);
      world.forget(0);
      world.mend(2);
      await world.clock.advance(awayMs);
      world.mend(0);
      await granted(rival.acquire(asker(rival)));
      expect(world.clock.now() < validUntil).toBe(isHole);
    }
  });

  it('refuses to count permits: a majority would let in more than there are', async () => {
    const ask = asker(client, 'k', { claim: { kind: 'permits', permits: 2, weight: 1 } });
    expect(await failureOf(client.acquire(ask))).toMatchObject({ code: 'LOCK_STORE', reason: 'refused' });
  });

  it('tells when a node stops answering, and when it answers again, once each', async () => {
    world.cut(1);
    for (let i = 0; i < 3; i++) {
      const ask = asker(client, `k${i}`);
      await granted(client.acquire(ask));
      await world.clock.advance(NODE_TIMEOUT_MS);
    }
    expect(world.told).toEqual([
      { node: 2, isUp: false, error: expect.objectContaining({ code: 'LOCK_STORE' }) },
    ]);
    world.mend(1);
    await granted(client.acquire(asker(client, 'k9')));
    expect(world.told.slice(1)).toEqual([{ node: 2, isUp: true }]);
  });
});

describe('the recipe of a quorum', () => {
  it('takes three nodes or more, each of them once', () => {
    const node = memoryStore();
    expect(() => quorumStore([node, memoryStore()])).toThrow(/takes 3 nodes or more.*given 2/);
    expect(() => quorumStore([node, node, memoryStore()])).toThrow(/one store twice/);
  });

  it('opens all nodes or none', () => {
    const closed: string[] = [];
    const closing: LockStoreFactory = {
      create: (context) => {
        const store = memoryStore().create(context);
        return Object.assign(store, { close: async () => void closed.push('closed') });
      },
    };
    const refusing: LockStoreFactory = {
      create: () => {
        throw new Error('its timings contradict each other');
      },
    };
    const recipe = quorumStore([closing, refusing, memoryStore()]);
    const context = { clock: world.clock, keyPrefix: '', watchdogTimeoutMs: 30_000 };
    expect(() => recipe.create(context)).toThrow(/contradict/);
    expect(closed).toEqual(['closed']);
  });
});

describe('the fencing tokens of a quorum', () => {
  it('grow though each grant is by another majority and the nodes count differently', async () => {
    // Node 2 is far ahead of the others, as after a clock that was wrong for a while.
    await world.eye(1).acquire(asker(world.eye(1), 'ahead', { tokens: 5_000_000 }));
    let last = 0;
    for (const away of [2, 1, 0, 1, 2, 0, 1]) {
      world.cut(away);
      const ask = asker(client, 'k', { tokens: 10 });
      const { token, lastToken } = await granted(client.acquire(ask));
      expect(token).toBeGreaterThan(last);
      last = lastToken;
      const ended = follow(client.release({ ...ask, used: { token: lastToken, lastToken } }));
      await world.clock.advance(NODE_TIMEOUT_MS);
      expect(ended.value).toBe('released');
      world.mend(away);
      await world.clock.advance(5 * NODE_TIMEOUT_MS);
    }
  });

  it('do not run away: what was reserved and not used goes back with the end', async () => {
    const firstAsk = asker(client);
    const first = await granted(client.acquire(firstAsk));
    await client.release(firstAsk);
    for (let i = 0; i < 100; i++) {
      const ask = asker(client, `k${i}`, { tokens: 1 });
      await granted(client.acquire(ask));
      await client.release(ask);
    }
    const after = await granted(client.acquire(asker(client, 'last')));
    expect(after.token - first.token).toBeLessThan(1000);
  });
});
