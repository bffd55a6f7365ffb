import assert from 'node:assert/strict';
import { promise, type ContractGroup } from './contract-case.js';

export const inspection = {
  freeIsNull: promise('nothing is told of a key that nobody holds and nobody waits for', async (bench) => {
    const holder = bench.contender();
    assert.equal(await holder.store.inspect(bench.key), null);
    await holder.acquire();
    await holder.end();
    assert.equal(await holder.store.inspect(bench.key), null);
  }),

  snapshot: promise(
    'a snapshot tells the holder, its lease and token, and who waits, in order',
    async (bench) => {
      const [holder, second, third] = [bench.contender(), bench.contender(), bench.contender()];
      await holder.acquire({ leaseMs: 20_000 });
      await second.queue();
      await third.queue();
      const snapshot = await third.store.inspect(bench.key);
      assert.ok(snapshot);
      const { remainingMs, ...rest } = snapshot;
      assert.ok(remainingMs > 0 && remainingMs <= 20_000, `${remainingMs} ms`);
      assert.deepEqual(rest, {
        key: bench.key,
        mode: 'exclusive',
        holders: [holder.owner],
        pending: [second.owner, third.owner],
        fencingToken: holder.grant.lastToken,
      });
    },
  ),

  forceTakes: promise('a forced release frees the key', async (bench) => {
    const [holder, next] = [bench.contender(), bench.contender()];
    await holder.acquire();
    assert.equal(await next.store.forceRelease(bench.key), 'released');
    await next.acquire();
    assert.equal(await holder.end(), 'not held');
    assert.equal((await holder.renew()).kind, 'lost');
    assert.ok(await next.isHolder());
  }),

  forceOfFree: promise('a forced release of a free key says so', async (bench) => {
    assert.equal(await bench.client().forceRelease(bench.key), 'not held');
  }),

  forceTells: promise('a forced release tells the holder', async (bench) => {
    const [holder, other] = [await bench.listener(), bench.contender()];
    await holder.acquire();
    await other.store.forceRelease(bench.key);
    await holder.pushed('lost');
  }),

  forceGrantsNext: promise('a forced release grants the next in line', async (bench) => {
    const [holder, next] = [bench.contender(), bench.contender()];
    await holder.acquire();
    await next.queue();
    await holder.store.forceRelease(bench.key);
    await next.acquireInTurn();
    assert.ok(await next.isHolder());
  }),
} satisfies ContractGroup;
