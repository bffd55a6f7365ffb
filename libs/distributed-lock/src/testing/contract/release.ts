import assert from 'node:assert/strict';
import { promise, type ContractGroup } from './contract-case.js';

export const release = {
  endFrees: promise('the end of the holder frees the key at once', async (bench) => {
    const [holder, next] = [bench.contender(), bench.contender()];
    await holder.acquire();
    assert.equal(await holder.end(), 'released');
    await next.acquire();
  }),

  endRepeated: promise('an end may be repeated: the next holder keeps the lock', async (bench) => {
    const [holder, next] = [bench.contender(), bench.contender()];
    await holder.acquire({ tokens: 10 });
    const used = holder.grant.token + 3;
    await holder.end(used);
    await next.acquire();
    assert.equal(await holder.end(used), 'not held');
    assert.ok(await next.isHolder());
  }),

  minimumHold: promise(
    'a release with a minimum hold keeps the key until that is over, whatever the owner sends after it',
    async (bench) => {
      const [holder, successor] = [bench.contender(), bench.contender()];
      await holder.acquire();
      const until = bench.clock.now() + 2 * bench.shortLeaseMs;
      assert.equal(await holder.end(undefined, until), 'released');
      assert.equal((await holder.renew()).kind, 'lost');
      await holder.end();
      assert.equal((await successor.queue()).kind, 'queued');
      await successor.acquireInTurn();
      assert.ok(bench.clock.now() >= until - 1, `${until - bench.clock.now()} ms too early`);
    },
  ),

  minimumHoldIsLonger: promise('a minimum hold outlives the lease', async (bench) => {
    const holder = bench.contender();
    await holder.acquire({ leaseMs: bench.shortLeaseMs });
    await holder.end(undefined, bench.clock.now() + 4 * bench.shortLeaseMs);
    await bench.pass(2 * bench.shortLeaseMs);
    assert.equal((await bench.contender().ask()).kind, 'busy');
  }),

  minimumHoldOfTheLost: promise(
    'a lock that was lost is not taken again for a minimum hold',
    async (bench) => {
      const [lost, waiter] = [bench.contender(), bench.contender()];
      await lost.acquire({ leaseMs: bench.shortLeaseMs });
      await bench.eventually('the lease is over', async () => !(await lost.isHolder()));
      assert.equal(await lost.end(undefined, bench.clock.now() + 20_000), 'not held');
      await waiter.acquire();
      assert.equal(await lost.end(undefined, bench.clock.now() + 20_000), 'not held');
      assert.ok(await waiter.isHolder());
    },
  ),

  minimumHoldPassed: promise('a minimum hold that is over passes the key on at once', async (bench) => {
    const [holder, waiter] = [bench.contender(), bench.contender()];
    await holder.acquire();
    await waiter.queue();
    await holder.end(undefined, bench.clock.now() - 1);
    await waiter.acquireInTurn();
  }),

  endOfOthers: promise('an owner that does not hold cannot free the key', async (bench) => {
    const holder = bench.contender();
    const neighbour = bench.contender({ client: holder.store });
    await holder.acquire();
    assert.equal(await neighbour.end(), 'not held');
    assert.equal(await bench.contender().end(), 'not held');
    assert.ok(await holder.isHolder());
  }),

  endLeavesTheLine: promise('a waiter that ends is not granted any more', async (bench) => {
    const [holder, quitter, patient] = [bench.contender(), bench.contender(), bench.contender()];
    await holder.acquire();
    await quitter.queue();
    await patient.queue();
    assert.equal(await quitter.end(), 'not held');
    await holder.end();
    await patient.acquireInTurn();
    assert.deepEqual(quitter.pushes, []);
  }),

  abortedAtHandOff: promise(
    'a waiter that is aborted in the moment of hand-off passes the lock on',
    async (bench) => {
      const [holder, aborted, next] = [bench.contender(), bench.contender(), bench.contender()];
      await holder.acquire();
      await aborted.queue();
      await next.queue();
      await Promise.all([holder.end(), aborted.end()]);
      await next.acquireInTurn();
      assert.ok(await next.isHolder());
    },
  ),

  grantGivenBack: promise(
    'a grant that nobody wants any more is given back by an end, and the next one is granted',
    async (bench) => {
      const [holder, granted, next] = [bench.contender(), bench.contender(), bench.contender()];
      await holder.acquire();
      await granted.queue();
      await next.queue();
      await holder.end();
      await granted.acquireInTurn();
      assert.equal(await granted.end(), 'released');
      await next.acquireInTurn();
    },
  ),

  endOvertakesNothing: promise(
    'an owner that ends while its acquire is under way holds nothing afterwards',
    async (bench) => {
      const hasty = bench.contender();
      await Promise.allSettled([hasty.ask(), hasty.end()]);
      assert.equal(await hasty.store.inspect(bench.key), null);
      const waiter = bench.contender();
      await Promise.allSettled([waiter.ask({ waitMs: Infinity }), waiter.end()]);
      assert.equal(await waiter.store.inspect(bench.key), null);
    },
  ),

  freedWithoutHolder: promise(
    'the end of a waiter serves those behind it, if the key became free meanwhile',
    async (bench) => {
      const [expired, quitter, next] = [bench.contender(), bench.contender(), bench.contender()];
      await expired.acquire({ leaseMs: bench.shortLeaseMs });
      await quitter.queue();
      await next.queue();
      await bench.pass(2 * bench.shortLeaseMs);
      await quitter.end();
      await bench.eventually('the next one holds without asking', () => next.isHolder());
    },
  ),
} satisfies ContractGroup;
