import assert from 'node:assert/strict';
import type { ContractGroup } from './stage.js';

export const notifications = {
  'the release of the holder notifies the next in the queue of its grant': async (stage) => {
    const [holder, next] = [stage.owner(), await stage.subscribedOwner()];
    await holder.acquire();
    await next.queue({ tokens: 4 });
    await holder.release();
    const grant = await next.notified('granted');
    assert.ok(await next.isHolder());
    assert.equal(grant.lastToken, grant.token + 3);
    assert.equal(grant.waiting, 0);
  },

  'an owner may have a number of any length': async (stage) => {
    const [holder, { store }] = [stage.owner(), await stage.subscribedOwner()];
    const numbers = ['900001', '10900001', `1${'0'.repeat(24)}1`];
    await holder.acquire();
    const queue = numbers.map((number) => stage.ownerNamed(store, number));
    for (const owner of queue) await owner.queue();
    await holder.release();
    for (const owner of queue) {
      const grant = await owner.notified('granted');
      await owner.expectRenewed({ grant });
      await owner.release();
    }
  },

  'only the owner is notified of its grant': async (stage) => {
    const [holder, next, last] = [
      stage.owner(),
      await stage.subscribedOwner(),
      await stage.subscribedOwner(),
    ];
    const neighbour = stage.owner({ client: next.store });
    await holder.acquire();
    await next.queue();
    await neighbour.queue();
    await last.queue();
    await holder.release();
    await next.notified('granted');
    assert.ok(!neighbour.wasNotified('granted') && !last.wasNotified('granted'));
  },

  'the notification and a recheck tell of the same grant': async (stage) => {
    const [holder, next] = [stage.owner(), await stage.subscribedOwner()];
    await holder.acquire();
    await next.queue({ tokens: 4 });
    await holder.release();
    const notified = await next.notified('granted');
    const rechecked = await next.acquire({ tokens: 4 });
    assert.deepEqual([rechecked.token, rechecked.lastToken], [notified.token, notified.lastToken]);
  },

  'a renewal confirms a grant by notification for a full lease': async (stage) => {
    const [holder, next] = [stage.owner(), await stage.subscribedOwner()];
    await holder.acquire();
    await next.queue({ leaseMs: 20_000 });
    await holder.release();
    await next.notified('granted');
    await next.expectRenewed();
    const remainingMs = (await next.store.inspect(stage.key))?.remainingMs ?? 0;
    assert.ok(remainingMs > 10_000, `${remainingMs} ms are left`);
  },

  'a grant by notification is valid no longer than the lease asked for': async (stage) => {
    const [holder, next] = [stage.owner(), await stage.subscribedOwner()];
    await holder.acquire();
    await next.queue({ leaseMs: 5000 });
    await holder.release();
    const { validUntil } = await next.notified('granted');
    assert.ok(validUntil < stage.clock.now() + 5000);
  },

  'the holder is told when the key becomes contended, and again by a recheck': async (stage) => {
    const [holder, waiter] = [await stage.subscribedOwner(), stage.owner()];
    await holder.acquire();
    await waiter.queue();
    assert.equal((await holder.notified('contended')).waiting, 1);
    holder.notifications.length = 0;
    await waiter.queue();
    await holder.notified('contended');
  },
} satisfies ContractGroup;
