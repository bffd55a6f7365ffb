import assert from 'node:assert/strict';
import type { Claim } from '../../port/claim.js';
import { LockStoreError } from '../../port/lock.errors.js';
import type { Contender } from './contender.js';
import { promise, type ContractGroup } from './contract-case.js';

function of(permits: number, weight = 1): { readonly claim: Claim } {
  return { claim: { kind: 'permits', permits, weight } };
}

export const permits = {
  atMostThatMany: promise('at most as many hold as there are permits', async (bench) => {
    const [one, two, three] = [bench.contender(), bench.contender(), bench.contender()];
    await one.acquire(of(2));
    await two.acquire(of(2));
    assert.equal((await three.ask(of(2))).kind, 'busy');
    const snapshot = await bench.client().inspect(bench.key);
    assert.equal(snapshot?.mode, 'permits');
    assert.deepEqual(new Set(snapshot.holders), new Set([one.owner, two.owner]));
    await one.end();
    await three.acquire(of(2));
  }),

  ofManyAtOnce: promise(
    'of many that ask at once exactly as many as there are permits are granted',
    async (bench) => {
      const contenders = Array.from({ length: 12 }, () => bench.contender());
      const replies = await Promise.all(contenders.map((contender) => contender.ask(of(5))));
      assert.equal(replies.filter(({ kind }) => kind === 'granted').length, 5);
    },
  ),

  weights: promise('a weight counts as that many', async (bench) => {
    const [heavy, light, other] = [bench.contender(), bench.contender(), bench.contender()];
    await heavy.acquire(of(5, 3));
    await light.acquire(of(5, 2));
    assert.equal((await other.ask(of(5))).kind, 'busy');
    await heavy.end();
    assert.equal((await other.ask(of(5, 4))).kind, 'busy');
    await other.acquire(of(5, 3));
  }),

  firstComeFirstServed: promise('nobody is overtaken by one that needs less', async (bench) => {
    const [holder, heavy, light] = [bench.contender(), bench.contender(), bench.contender()];
    await holder.acquire(of(3, 2));
    await heavy.queue(of(3, 3));
    await light.queue(of(3, 1));
    assert.equal((await bench.contender().ask(of(3, 1))).kind, 'busy');
    await holder.end();
    await heavy.acquireInTurn();
    assert.equal((await light.ask({ waitMs: Infinity })).kind, 'queued');
    await heavy.end();
    await light.acquireInTurn();
  }),

  severalEnterAtOnce: promise('a release lets in as many as it makes room for', async (bench) => {
    const heavy = bench.contender();
    await heavy.acquire(of(3, 3));
    const waiting = Array.from({ length: 4 }, () => bench.contender());
    for (const contender of waiting) await contender.queue(of(3));
    await heavy.end();
    for (const contender of waiting.slice(0, 3)) await contender.acquireInTurn();
    assert.equal((await waiting[3]?.ask({ waitMs: Infinity }))?.kind, 'queued');
  }),

  leasesOfTheirOwn: promise(
    'a permit that is not renewed comes free by itself, and the others stay',
    async (bench) => {
      const [dead, alive, next] = [bench.contender(), bench.contender(), bench.contender()];
      await dead.acquire({ ...of(2), leaseMs: bench.shortLeaseMs });
      await alive.acquire(of(2));
      await next.acquireInTurn(of(2));
      assert.equal((await dead.renew()).kind, 'lost');
      assert.equal(await dead.end(), 'not held');
      assert.equal((await alive.renew()).kind, 'renewed');
      assert.equal((await bench.contender().ask(of(2))).kind, 'busy');
    },
  ),

  renewalKeepsAll: promise('a renewal keeps all of a weight', async (bench) => {
    const [holder, other] = [bench.contender(), bench.contender()];
    await holder.acquire({ ...of(3, 3), leaseMs: bench.shortLeaseMs });
    await holder.renew({ leaseMs: 20_000 });
    await bench.pass(2 * bench.shortLeaseMs);
    assert.equal((await other.ask(of(3))).kind, 'busy');
    assert.equal(await holder.end(), 'released');
    await other.acquire(of(3, 3));
  }),

  limitChanges: promise(
    'each asker counts by its own number, which may grow or shrink in use',
    async (bench) => {
      const contenders = Array.from({ length: 4 }, () => bench.contender());
      const [one, two, three, four] = contenders as [Contender, Contender, Contender, Contender];
      await one.acquire(of(2));
      await two.acquire(of(2));
      await three.acquire(of(3));
      await one.end();
      await two.end();
      assert.equal((await four.ask(of(1))).kind, 'busy');
      await three.end();
      await four.acquire(of(1));
    },
  ),

  permitAsksAgain: promise(
    'an owner that asks again holds what it held, under the same tokens',
    async (bench) => {
      const [one, two] = [bench.contender(), bench.contender()];
      const first = await one.acquire({ ...of(2), tokens: 3 });
      const again = await one.acquire({ ...of(2), tokens: 3 });
      assert.deepEqual([again.token, again.lastToken], [first.token, first.lastToken]);
      await two.acquire(of(2));
      assert.equal(await one.end(), 'released');
      assert.equal(await one.end(), 'not held');
      await one.acquire(of(2));
    },
  ),

  leavesNothing: promise('nothing is told of a key whose permits are all back', async (bench) => {
    const [one, two] = [bench.contender(), bench.contender()];
    await one.acquire(of(2));
    await two.acquire(of(2));
    await one.end();
    await two.end();
    assert.equal(await one.store.inspect(bench.key), null);
    await bench.contender().acquire();
  }),

  otherKind: promise('a key in use as a lock is not given out by permits, nor the reverse', async (bench) => {
    const [lock, permit] = [bench.contender(), bench.contender()];
    const isRefused = (error: unknown) => error instanceof LockStoreError && error.reason === 'refused';
    await lock.acquire();
    await assert.rejects(permit.ask(of(2)), isRefused);
    await lock.end();
    await permit.acquire(of(2));
    await assert.rejects(bench.contender().ask(), isRefused);
    await assert.rejects(bench.contender().ask({ claim: { kind: 'shared' } }), isRefused);
    assert.equal((await permit.renew()).kind, 'renewed');
  }),

  forceTakesAllPermits: promise('a forced release takes all permits', async (bench) => {
    const [one, two] = [bench.contender(), bench.contender()];
    await one.acquire(of(5, 3));
    await two.acquire(of(5));
    assert.equal(await one.store.forceRelease(bench.key), 'released');
    assert.equal((await one.renew()).kind, 'lost');
    assert.equal((await two.renew()).kind, 'lost');
    await bench.contender().acquire(of(5, 5));
  }),
} satisfies ContractGroup;
