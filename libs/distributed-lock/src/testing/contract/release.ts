import assert from 'node:assert/strict';
import type { ContractGroup } from './stage.js';

export const release = {
  'the release of the holder frees the key at once': async (stage) => {
    const [holder, next] = await stage.held(2);
    assert.equal(await holder.release(), 'released');
    await next.acquire();
  },

  'a release may be repeated: the next holder keeps the lock': async (stage) => {
    const [holder, next] = await stage.held(2, { tokens: 10 });
    const used = holder.grant.token + 3;
    await holder.release(used);
    await next.acquire();
    assert.equal(await holder.release(used), 'not held');
    assert.ok(await next.isHolder());
  },

  'a release with a minimum hold keeps the key until that is over, whatever the owner sends after it': async (
    stage,
  ) => {
    const [holder, successor] = await stage.held(2);
    // So long that three requests fit into it on a busy machine.
    const until = stage.clock.now() + 10 * stage.shortLeaseMs;
    assert.equal(await holder.release(undefined, until), 'released');
    await holder.expectLost();
    await holder.release();
    assert.equal((await successor.queue()).kind, 'queued');
    await successor.waitForGrant();
    assert.ok(stage.clock.now() >= until - 1, `${until - stage.clock.now()} ms too early`);
  },

  'a minimum hold outlives the lease': async (stage) => {
    const holder = stage.owner();
    // On a busy machine the release may be sent only after the lease has ended. So try several times.
    await stage.eventually('a release within the lease succeeds', async () => {
      await holder.acquire({ leaseMs: stage.shortLeaseMs });
      return (await holder.release(undefined, stage.clock.now() + 20_000)) === 'released';
    });
    await stage.pass(2 * stage.shortLeaseMs);
    await stage.owner().expectBusy();
  },

  'a lock that was lost is not taken again for a minimum hold': async (stage) => {
    const [lost, waiter] = await stage.held(2, { leaseMs: stage.shortLeaseMs });
    await lost.expires();
    assert.equal(await lost.release(undefined, stage.clock.now() + 20_000), 'not held');
    await waiter.acquire();
    assert.equal(await lost.release(undefined, stage.clock.now() + 20_000), 'not held');
    assert.ok(await waiter.isHolder());
  },

  'a minimum hold that is over passes the key on at once': async (stage) => {
    const [holder, waiter] = await stage.held(2);
    await waiter.queue();
    await holder.release(undefined, stage.clock.now() - 1);
    await waiter.waitForGrant();
  },

  'an owner that does not hold cannot free the key': async (stage) => {
    const holder = stage.owner();
    const neighbour = stage.owner({ client: holder.store });
    await holder.acquire();
    assert.equal(await neighbour.release(), 'not held');
    assert.equal(await stage.owner().release(), 'not held');
    assert.ok(await holder.isHolder());
  },

  'a waiter that releases is not granted any more': async (stage) => {
    const [holder, quitter, patient] = await stage.held(3);
    await quitter.queue();
    await patient.queue();
    assert.equal(await quitter.release(), 'not held');
    await holder.release();
    await patient.waitForGrant();
    assert.deepEqual(quitter.notifications, []);
  },

  'a waiter that is aborted in the moment of hand-off passes the lock on': async (stage) => {
    const [holder, aborted, next] = await stage.held(3);
    await aborted.queue();
    await next.queue();
    await Promise.all([holder.release(), aborted.release()]);
    await next.waitForGrant();
    assert.ok(await next.isHolder());
  },

  'the release of a grant that no caller wants any more grants the next in the queue': async (stage) => {
    const [holder, granted, next] = await stage.held(3);
    await granted.queue();
    await next.queue();
    await holder.release();
    await granted.waitForGrant();
    assert.equal(await granted.release(), 'released');
    await next.waitForGrant();
  },

  'an owner that releases while its acquire is under way holds nothing afterwards': async (stage) => {
    const hasty = stage.owner();
    await Promise.allSettled([hasty.tryAcquire(), hasty.release()]);
    assert.equal(await hasty.store.inspect(stage.key), null);
    const waiter = stage.owner();
    await Promise.allSettled([waiter.tryAcquire({ mayWait: true }), waiter.release()]);
    assert.equal(await waiter.store.inspect(stage.key), null);
  },

  'the release of a waiter serves the queue behind it, if the key became free meanwhile': async (stage) => {
    const [dead, quitter, next] = await stage.held(3);
    await quitter.queue();
    await next.queue();
    await dead.stopsRenewing();
    await stage.pass(2 * stage.shortLeaseMs);
    await quitter.release();
    await stage.eventually('the next one holds without asking', () => next.isHolder());
  },
} satisfies ContractGroup;
