import assert from 'node:assert/strict';
import type { ContractGroup } from './stage.js';

export const waiting = {
  'the order of asking is the order of granting': async (stage) => {
    const holder = stage.owner();
    const waiters = stage.owners(4);
    await holder.acquire();
    for (const waiter of waiters) await waiter.queue();
    let before = holder;
    for (const waiter of waiters) {
      await before.release();
      await stage.eventually(`${waiter.owner} holds`, () => waiter.isHolder());
      await waiter.acquire({ mayWait: true });
      before = waiter;
    }
  },

  'a recheck changes no place in the queue': async (stage) => {
    const [holder, first, second] = await stage.held(3);
    const { ticket } = await first.queue();
    await second.queue();
    assert.equal((await second.queue()).kind, 'queued');
    assert.equal((await first.queue()).ticket, ticket);
    await second.queue({ ticket: 0 });
    assert.deepEqual((await holder.store.inspect(stage.key))?.pending, [first.owner, second.owner]);
  },

  'a ticket that is presented again is ahead of those who came later': async (stage) => {
    const [holder, left, later] = await stage.held(3);
    const { ticket } = await left.queue();
    await later.queue();
    await left.release();
    const back = stage.owner();
    assert.equal((await back.queue({ ticket })).ticket, ticket);
    assert.deepEqual((await holder.store.inspect(stage.key))?.pending, [back.owner, later.owner]);
  },

  'a caller that does not wait does not enter the queue': async (stage) => {
    const [holder, impatient] = await stage.held(2);
    await impatient.expectBusy({ mayWait: false });
    assert.deepEqual((await holder.store.inspect(stage.key))?.pending, []);
    await holder.release();
    assert.equal(await holder.store.inspect(stage.key), null);
  },

  'a caller that does not wait does not overtake the queue': async (stage) => {
    const [dead, waiter, impatient] = [
      await stage.subscribedOwner(),
      await stage.subscribedOwner(),
      stage.owner(),
    ];
    await dead.acquire();
    await waiter.queue();
    await dead.stopsRenewing();
    await stage.pass(2 * stage.shortLeaseMs);
    const reply = await impatient.tryAcquire({ mayWait: false });
    assert.deepEqual([reply.kind, reply.kind === 'busy' && reply.holder], ['busy', waiter.owner]);
  },

  'a waiter whose client is gone is passed over': async (stage) => {
    const [holder, gone, next] = [
      stage.owner(),
      await stage.subscribedOwner(),
      await stage.subscribedOwner(),
    ];
    await holder.acquire();
    await gone.queue();
    await next.queue();
    await gone.store.close();
    await holder.release();
    assert.ok(await next.isHolder(), 'it holds at once: nobody waited for the one that is gone');
  },

  'a waiter that does not recheck any more is not counted, not shown and passed over': async (stage) => {
    const [holder, silent, next] = [stage.owner(), await stage.subscribedOwner(), stage.owner()];
    await holder.acquire();
    const { recheckAfterMs } = await silent.queue();
    await stage.pass(4 * recheckAfterMs);
    assert.deepEqual((await holder.store.inspect(stage.key))?.pending, []);
    assert.equal((await next.queue({ maxWaiting: 1 })).waiting, 0);
    await holder.release();
    await next.waitForGrant();
    assert.ok(!silent.wasNotified('granted'));
  },

  'a lost notification costs nothing but time: the next recheck is answered with the grant': async (
    stage,
  ) => {
    const [holder, waiter] = await stage.held(2);
    await waiter.queue({ tokens: 3 });
    await holder.release();
    const grant = await waiter.waitForGrant();
    const again = await waiter.acquire();
    assert.deepEqual([again.token, again.lastToken], [grant.token, grant.lastToken]);
    assert.ok(grant.confirmed);
  },

  'an owner behind maxWaiting others does not enter the queue, and is told how many wait': async (stage) => {
    const [holder, first, second, third, last] = await stage.held(5, { maxWaiting: 0 });
    const { remainingMs: _, ...refused } = await first.expectBusy({ mayWait: true, maxWaiting: 0 });
    assert.deepEqual(refused, { kind: 'busy', holder: holder.owner, waiting: 0 });
    assert.equal((await first.queue({ maxWaiting: 1 })).waiting, 0);
    assert.equal((await second.queue({ maxWaiting: 2 })).waiting, 1);
    assert.equal((await third.expectBusy({ mayWait: true, maxWaiting: 2 })).waiting, 2);
    assert.equal((await last.queue({ maxWaiting: Infinity })).waiting, 2);
    const pending = [first.owner, second.owner, last.owner];
    assert.deepEqual((await holder.store.inspect(stage.key))?.pending, pending);
  },

  'an owner that waits already is not refused by maxWaiting, and keeps its place': async (stage) => {
    const [holder, first, second] = await stage.held(3);
    const { ticket } = await first.queue({ maxWaiting: 1 });
    await second.queue();
    const again = await first.queue({ maxWaiting: 0 });
    assert.deepEqual([again.ticket, again.waiting], [ticket, 1]);
    await holder.release();
    await first.waitForGrant({ maxWaiting: 0 });
  },

  'of owners that ask at once, as many wait as maxWaiting allows': async (stage) => {
    const [holder, ...askers] = stage.owners(7);
    await holder.acquire();
    const asked = askers.map((asker) => asker.tryAcquire({ mayWait: true, maxWaiting: 2 }));
    const kinds = (await Promise.all(asked)).map(({ kind }) => kind);
    assert.deepEqual(kinds.toSorted(), ['busy', 'busy', 'busy', 'busy', 'queued', 'queued']);
    assert.equal((await holder.store.inspect(stage.key))?.pending.length, 2);
  },

  'an owner that is refused by maxWaiting leaves nothing': async (stage) => {
    const [holder, refused] = await stage.held(2);
    await refused.expectBusy({ mayWait: true, maxWaiting: 0 });
    await holder.release();
    assert.equal(await holder.store.inspect(stage.key), null);
  },

  'a grant tells how many others wait': async (stage) => {
    const [holder, second, third] = stage.owners(3);
    assert.equal((await holder.acquire()).waiting, 0);
    await second.queue();
    await third.queue();
    assert.equal((await holder.acquire()).waiting, 2);
    await holder.release();
    assert.equal((await second.waitForGrant()).waiting, 1);
  },
} satisfies ContractGroup;
