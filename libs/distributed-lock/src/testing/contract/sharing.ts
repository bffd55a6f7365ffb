import assert from 'node:assert/strict';
import { storeThatCan } from '../../port/capabilities.js';
import type { Claim } from '../../port/lock-store.js';
import { needing, type ContractGroup } from './stage.js';

const shared: Claim = { kind: 'shared' };
const READER = { claim: shared };
const exclusive: Claim = { kind: 'exclusive' };
const ALONE: readonly Claim[] = [exclusive, { kind: 'lock' }];

export const sharing = {
  'readers hold together': async (stage) => {
    const [one, two, three] = await stage.holders(3, READER);
    const snapshot = await stage.client().inspect(stage.key);
    assert.equal(snapshot?.mode, 'shared');
    assert.deepEqual(new Set(snapshot.holders), new Set([one.owner, two.owner, three.owner]));
  },

  'an exclusive holder excludes readers, writers and plain locks': async (stage) => {
    for (const held of ALONE) {
      const [holder] = await stage.held(1, { claim: held });
      for (const claim of [...ALONE, shared]) await stage.owner().expectBusy({ claim });
      await holder.release();
    }
  },

  'a writer waits for the last reader, and no longer': async (stage) => {
    for (const claim of ALONE) {
      const [one, two] = await stage.holders(2, READER);
      const writer = stage.owner();
      await writer.queue({ claim });
      await one.release();
      await writer.queue();
      await two.release();
      await writer.waitForGrant();
      await writer.release();
    }
  },

  'a writer in the queue is not overtaken by later readers': async (stage) => {
    const [first] = await stage.holders(1, READER);
    const [writer, later, impatient] = stage.owners(3);
    await writer.queue({ claim: exclusive });
    await later.queue(READER);
    await impatient.expectBusy(READER);
    await first.release();
    await writer.waitForGrant();
    await later.queue();
    await writer.release();
    await later.waitForGrant();
  },

  'readers that wait one after the other enter together': async (stage) => {
    const [writer] = await stage.held(1, { claim: exclusive });
    const waiting = stage.owners(3);
    for (const reader of waiting) await reader.queue(READER);
    const next = stage.owner();
    await next.queue({ claim: exclusive });
    await writer.release();
    for (const reader of waiting) await reader.waitForGrant();
    await next.queue();
    for (const reader of waiting) await reader.release();
    await next.waitForGrant();
  },

  'readers behind a writer that leaves the queue enter beside the readers that hold': async (stage) => {
    await stage.holders(1, READER);
    const [writer, later] = stage.owners(2);
    await writer.queue({ claim: exclusive });
    await later.queue(READER);
    await writer.release();
    await later.waitForGrant();
  },

  'a reader that died keeps a writer out for its own lease only': async (stage) => {
    const [dead, alive, writer] = stage.owners(3);
    await alive.acquire(READER);
    await dead.acquire({ claim: shared, leaseMs: stage.shortLeaseMs });
    await writer.queue({ claim: exclusive });
    await dead.expires();
    assert.equal((await dead.renew()).kind === 'lost' || (await dead.release()) !== 'unknown', true);
    await alive.expectRenewed();
    await alive.release();
    await writer.waitForGrant();
  },

  'a renewal of one reader does not keep another alive': async (stage) => {
    const [dead, alive] = await stage.held(2, { claim: shared, leaseMs: stage.shortLeaseMs });
    await alive.acquire(READER);
    await stage.eventually('its lease ends', async () => {
      await alive.renew();
      return !(await dead.isHolder());
    });
    assert.ok(await alive.isHolder());
  },

  'a reader that asks again is answered with the same tokens': async (stage) => {
    const [one, two] = stage.owners(2);
    const first = await one.acquire({ claim: shared, tokens: 4 });
    await two.acquire({ claim: shared, tokens: 4 });
    const again = await one.acquire({ tokens: 4 });
    assert.deepEqual([again.token, again.lastToken], [first.token, first.lastToken]);
    assert.equal(await one.release(), 'released');
    assert.equal(await one.release(), 'not held');
    assert.ok(await two.isHolder());
  },

  'a token of a reader is larger than those of writers before it, and smaller than those after': async (
    stage,
  ) => {
    const before = stage.owner();
    const { lastToken } = await before.acquire({ claim: exclusive, tokens: 3 });
    await before.release();
    const [one, two] = await stage.holders(2, READER);
    await one.release();
    await two.release();
    const after = await stage.owner().acquire({ claim: exclusive });
    for (const reader of [one, two]) {
      assert.ok(lastToken < reader.grant.token);
      assert.ok(reader.grant.lastToken < after.token);
    }
  },

  'a reader that was granted anew is told that its first grant is lost': async (stage) => {
    const reader = stage.owner();
    const first = await reader.acquire(READER);
    await reader.release();
    const second = await reader.acquire(READER);
    await reader.expectLost({ grant: first });
    await reader.expectRenewed({ grant: second });
  },

  'an exclusive holder may step down, and readers in the queue enter at once': async (stage) => {
    for (const claim of ALONE) {
      const [holder, reader, writer] = await stage.held(3, { claim });
      await reader.queue(READER);
      await writer.queue({ claim: exclusive });
      await holder.expectRenewed(READER);
      await holder.expectRenewed(READER);
      await reader.waitForGrant();
      assert.ok(await holder.isHolder());
      await writer.queue();
      assert.equal(await holder.release(), 'released');
      await reader.release();
      await writer.waitForGrant();
      await writer.release();
    }
  },

  'a renewal that was sent before its owner stepped down neither undoes that nor is a loss': async (
    stage,
  ) => {
    for (const claim of ALONE) {
      const [holder, reader] = await stage.held(2, { claim });
      await holder.renew(READER);
      await reader.acquire(READER);
      await holder.expectRenewed({ claim });
      assert.equal((await stage.client().inspect(stage.key))?.mode, 'shared');
      await holder.expectRenewed(READER);
      await holder.release();
      await reader.release();
    }
  },

  ...needing('force', {
    'a holder that has lost its lock does not get it back by stepping down': async (stage) => {
      const [holder, next] = await stage.held(2, { claim: exclusive });
      await storeThatCan(next.store, 'force').forceRelease(stage.key);
      await holder.expectLost(READER);
      await next.acquire({ claim: exclusive });
      await holder.expectLost(READER);
    },
  }),

  'a release as a reader also releases a lock that had not stepped down yet': async (stage) => {
    const [holder, next] = stage.owners(2);
    const { key, owner, store } = holder;
    await holder.acquire({ claim: exclusive });
    assert.equal(await store.release({ key, owner, claim: shared, leaseMs: 30_000 }), 'released');
    await next.acquire({ claim: exclusive });
  },

  ...needing('force', {
    'a forced release takes the lock from all readers': async (stage) => {
      const [one, two] = await stage.holders(2, READER);
      assert.equal(await storeThatCan(stage.client(), 'force').forceRelease(stage.key), 'released');
      await one.expectLost();
      await two.expectLost();
      await stage.owner().acquire({ claim: exclusive });
    },
  }),
} satisfies ContractGroup;
