import assert from 'node:assert/strict';
import { storeThatCan } from '../../port/capabilities.js';
import type { Claim } from '../../port/lock-store.js';
import { LockStoreError } from '../../port/lock.errors.js';
import { needing, type ContractGroup } from './stage.js';

function of(permits: number, weight = 1): { readonly claim: Claim } {
  return { claim: { kind: 'permits', permits, weight } };
}

export const permitCases = {
  'at most as many hold as there are permits': async (stage) => {
    const [one, two, three] = await stage.held(3, of(2));
    await two.acquire(of(2));
    await three.expectBusy(of(2));
    const snapshot = await stage.client().inspect(stage.key);
    assert.equal(snapshot?.mode, 'permits');
    assert.deepEqual(new Set(snapshot.holders), new Set([one.owner, two.owner]));
    await one.release();
    await three.acquire(of(2));
  },

  'of many that ask at once exactly as many as there are permits are granted': async (stage) => {
    const owners = stage.owners(12);
    const replies = await Promise.all(owners.map((owner) => owner.tryAcquire(of(5))));
    assert.equal(replies.filter(({ kind }) => kind === 'granted').length, 5);
  },

  'a weight counts as that many': async (stage) => {
    const [heavy, light, other] = await stage.held(3, of(5, 3));
    await light.acquire(of(5, 2));
    await other.expectBusy(of(5));
    await heavy.release();
    await other.expectBusy(of(5, 4));
    await other.acquire(of(5, 3));
  },

  'nobody is overtaken by an owner that needs less': async (stage) => {
    const [holder, heavy, light] = await stage.held(3, of(3, 2));
    await heavy.queue(of(3, 3));
    await light.queue(of(3, 1));
    await stage.owner().expectBusy(of(3, 1));
    await holder.release();
    await heavy.waitForGrant();
    await light.queue();
    await heavy.release();
    await light.waitForGrant();
  },

  'a release lets in as many as it makes room for': async (stage) => {
    const [heavy] = await stage.held(1, of(3, 3));
    const waiting = stage.owners(4);
    for (const owner of waiting) await owner.queue(of(3));
    await heavy.release();
    for (const owner of waiting.slice(0, 3)) await owner.waitForGrant();
    await waiting[3].queue();
  },

  'a permit that is not renewed comes free by itself, and the others stay': async (stage) => {
    const [dead, alive, next] = await stage.held(3, { ...of(2), leaseMs: stage.shortLeaseMs });
    await alive.acquire(of(2));
    await next.waitForGrant(of(2));
    await dead.expectLost();
    assert.equal(await dead.release(), 'not held');
    await alive.expectRenewed();
    await stage.owner().expectBusy(of(2));
  },

  'a renewal keeps all of a weight': async (stage) => {
    const [holder, other] = stage.owners(2);
    // On a busy machine the renewal may be sent only after the first lease has ended. So try several times.
    await stage.eventually('a renewal within the first lease succeeds', async () => {
      const grant = await holder.acquire({ ...of(3, 3), leaseMs: stage.shortLeaseMs });
      return (await holder.renew({ leaseMs: 20_000, grant })).kind === 'renewed';
    });
    await stage.pass(2 * stage.shortLeaseMs);
    await other.expectBusy(of(3));
    assert.equal(await holder.release(), 'released');
    await other.acquire(of(3, 3));
  },

  'each owner counts by its own number, which may grow or shrink in use': async (stage) => {
    const [one, two, three, four] = await stage.held(4, of(2));
    await two.acquire(of(2));
    await three.acquire(of(3));
    await one.release();
    await two.release();
    await four.expectBusy(of(1));
    await three.release();
    await four.acquire(of(1));
  },

  'an owner that asks again holds what it held, under the same tokens': async (stage) => {
    const [one, two] = stage.owners(2);
    const first = await one.acquire({ ...of(2), tokens: 3 });
    const again = await one.acquire({ ...of(2), tokens: 3 });
    assert.deepEqual([again.token, again.lastToken], [first.token, first.lastToken]);
    await two.acquire(of(2));
    assert.equal(await one.release(), 'released');
    assert.equal(await one.release(), 'not held');
    await one.acquire(of(2));
  },

  'nothing is told of a key whose permits are all back': async (stage) => {
    const [one, two] = await stage.holders(2, of(2));
    await one.release();
    await two.release();
    assert.equal(await one.store.inspect(stage.key), null);
    await stage.owner().acquire();
  },

  'a key in use as a lock is not given out by permits, nor the reverse': async (stage) => {
    const [lock, permit] = stage.owners(2);
    const isRefused = (error: unknown) => error instanceof LockStoreError && error.reason === 'refused';
    await lock.acquire();
    await assert.rejects(permit.tryAcquire(of(2)), isRefused);
    await lock.release();
    await permit.acquire(of(2));
    await assert.rejects(stage.owner().tryAcquire(), isRefused);
    await assert.rejects(stage.owner().tryAcquire({ claim: { kind: 'shared' } }), isRefused);
    await permit.expectRenewed();
  },

  ...needing('force', {
    'a forced release takes all permits': async (stage) => {
      const [one, two] = await stage.held(2, of(5, 3));
      await two.acquire(of(5));
      assert.equal(await storeThatCan(one.store, 'force').forceRelease(stage.key), 'released');
      await one.expectLost();
      await two.expectLost();
      await stage.owner().acquire(of(5, 5));
    },
  }),

  ...needing('force', {
    'a forced release of one owner takes its permits, and no others': async (stage) => {
      const [one, two] = await stage.held(2, of(5, 3));
      await two.acquire(of(5));
      const next = stage.owner();
      assert.equal(
        await storeThatCan(next.store, 'force').forceRelease(stage.key, { owners: [one.owner] }),
        'released',
      );
      await one.expectLost();
      await two.expectRenewed();
      assert.equal(
        await storeThatCan(next.store, 'force').forceRelease(stage.key, { owners: [one.owner] }),
        'held by another',
      );
      await next.acquire(of(5, 4));
      assert.equal((await stage.owner().tryAcquire(of(5))).kind, 'busy');
    },
  }),
} satisfies ContractGroup;
