import assert from 'node:assert/strict';
import { promise, type ContractGroup } from './contract-case.js';

export const expiry = {
  leaseEnds: promise('a lease that nobody renews ends by itself', async (bench) => {
    const [holder, successor] = [bench.contender(), bench.contender()];
    await holder.acquire({ leaseMs: bench.shortLeaseMs });
    await bench.eventually('the key is free', async () => (await successor.ask()).kind === 'granted');
    assert.ok(await successor.isHolder());
  }),

  notBeforeItsEnd: promise(
    'nobody else is granted before the holder stops to believe in its lease',
    async (bench) => {
      const [holder, successor] = [bench.contender(), bench.contender()];
      const { validUntil } = await holder.acquire({ leaseMs: bench.shortLeaseMs });
      await successor.acquireInTurn();
      assert.ok(bench.clock.now() >= validUntil);
    },
  ),

  successorReleases: promise(
    'the successor of an expired holder can release, and the expired holder cannot',
    async (bench) => {
      const [expired, successor] = [bench.contender(), bench.contender()];
      await expired.acquire({ leaseMs: bench.shortLeaseMs });
      await successor.acquireInTurn();
      assert.equal(await expired.end(), 'not held');
      assert.ok(await successor.isHolder());
      assert.equal(await successor.end(), 'released');
    },
  ),

  waiterInherits: promise(
    'who waits is granted when the lease of a holder that died is over',
    async (bench) => {
      const [dead, waiter] = [bench.contender(), bench.contender()];
      await dead.acquire({ leaseMs: bench.shortLeaseMs });
      await waiter.queue();
      await dead.store.close();
      await waiter.acquireInTurn();
      assert.ok(await waiter.isHolder());
    },
  ),

  lookComesInTime: promise(
    'a waiter is told to look no later than shortly after the end of the lease',
    async (bench) => {
      const [holder, waiter] = [bench.contender(), bench.contender()];
      await holder.acquire({ leaseMs: bench.shortLeaseMs });
      const { recheckAfterMs: lookAfterMs, remainingMs } = await waiter.queue();
      assert.ok(lookAfterMs > 0 && lookAfterMs <= remainingMs + 50, `${lookAfterMs} ms of ${remainingMs} ms`);
    },
  ),

  askedAnewAfterLoss: promise(
    'an owner that asks again after its lease was over is granted under another token',
    async (bench) => {
      const holder = bench.contender();
      const first = await holder.acquire({ leaseMs: bench.shortLeaseMs });
      await bench.eventually('the lease is over', async () => !(await holder.isHolder()));
      const second = await holder.acquire({ leaseMs: bench.shortLeaseMs });
      assert.ok(second.token > first.token);
    },
  ),
} satisfies ContractGroup;
