import assert from 'node:assert/strict';
import type { ContractGroup } from './stage.js';

export const expiry = {
  'a lease that nobody renews ends by itself': async (stage) => {
    const [, successor] = await stage.held(2, { leaseMs: stage.shortLeaseMs });
    await stage.eventually('the key is free', async () => (await successor.tryAcquire()).kind === 'granted');
    assert.ok(await successor.isHolder());
  },

  'nobody else is granted within the validity of the holder': async (stage) => {
    const [holder, successor] = stage.owners(2);
    const { validUntil } = await holder.acquire({ leaseMs: stage.shortLeaseMs });
    await successor.waitForGrant();
    assert.ok(stage.clock.now() >= validUntil);
  },

  'the successor of an expired holder can release, and the expired holder cannot': async (stage) => {
    const [expired, successor] = await stage.held(2, { leaseMs: stage.shortLeaseMs });
    await successor.waitForGrant();
    await expired.expectLost();
    assert.equal(await expired.release(), 'not held');
    assert.ok(await successor.isHolder());
    assert.equal(await successor.release(), 'released');
  },

  'a waiter is granted when the lease of a holder that crashed is over': async (stage) => {
    const [dead, waiter] = await stage.held(2);
    await waiter.queue();
    await dead.stopsRenewing();
    await dead.store.close();
    await waiter.waitForGrant();
    assert.ok(await waiter.isHolder());
  },

  'a waiter is told to recheck no later than shortly after the end of the lease': async (stage) => {
    const [holder, waiter] = await stage.held(2);
    await waiter.queue();
    // Shorter than a recheck, and so long that the next request fits into it on a busy machine.
    await holder.expectRenewed({ leaseMs: 6 * stage.shortLeaseMs });
    const { recheckAfterMs, remainingMs } = await waiter.queue();
    assert.ok(
      recheckAfterMs > 0 && recheckAfterMs <= remainingMs + 50,
      `${recheckAfterMs} ms of ${remainingMs} ms`,
    );
  },

  'an owner that asks again after its lease was over is granted under another token': async (stage) => {
    const holder = stage.owner();
    const first = await holder.acquire({ leaseMs: stage.shortLeaseMs });
    await holder.expires();
    const second = await holder.acquire({ leaseMs: stage.shortLeaseMs });
    assert.ok(second.token > first.token);
  },
} satisfies ContractGroup;
