import assert from 'node:assert/strict';
import type { ContractGroup } from './stage.js';

export const inspection = {
  'nothing is told of a key that nobody holds and nobody waits for': async (stage) => {
    const holder = stage.owner();
    assert.equal(await holder.store.inspect(stage.key), null);
    await holder.acquire();
    await holder.release();
    assert.equal(await holder.store.inspect(stage.key), null);
  },

  'a snapshot tells the holder, its lease and token, and who waits, in order': async (stage) => {
    const [holder, second, third] = stage.owners(3);
    await holder.acquire({ leaseMs: 20_000 });
    await second.queue();
    await third.queue();
    const snapshot = await third.store.inspect(stage.key);
    assert.ok(snapshot);
    const { remainingMs, ...rest } = snapshot;
    assert.ok(remainingMs > 0 && remainingMs <= 20_000, `${remainingMs} ms`);
    assert.deepEqual(rest, {
      key: stage.key,
      mode: 'exclusive',
      holders: [holder.owner],
      pending: [second.owner, third.owner],
      fencingToken: holder.grant.lastToken,
    });
  },

  'a forced release frees the key': async (stage) => {
    const [holder, next] = stage.owners(2);
    await holder.acquire();
    assert.equal(await next.store.forceRelease(stage.key), 'released');
    await next.acquire();
    assert.equal(await holder.release(), 'not held');
    await holder.expectLost();
    assert.ok(await next.isHolder());
  },

  'a forced release of a free key says so': async (stage) => {
    assert.equal(await stage.client().forceRelease(stage.key), 'not held');
  },

  'a forced release tells the holder': async (stage) => {
    const [holder, other] = [await stage.subscribedOwner(), stage.owner()];
    await holder.acquire();
    await other.store.forceRelease(stage.key);
    await holder.notified('lost');
  },

  'a forced release grants the next in the queue': async (stage) => {
    const [holder, next] = stage.owners(2);
    await holder.acquire();
    await next.queue();
    await holder.store.forceRelease(stage.key);
    await next.waitForGrant();
    assert.ok(await next.isHolder());
  },
} satisfies ContractGroup;
