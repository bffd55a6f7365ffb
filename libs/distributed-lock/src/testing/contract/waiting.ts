import assert from 'node:assert/strict';
import { promise, type ContractGroup } from './contract-case.js';

export const waiting = {
  orderOfAsking: promise('the order of asking is the order of granting', async (bench) => {
    const holder = bench.contender();
    const line = [1, 2, 3, 4].map(() => bench.contender());
    await holder.acquire();
    for (const waiter of line) await waiter.queue();
    let before = holder;
    for (const waiter of line) {
      await before.end();
      await bench.eventually(`${waiter.owner} holds`, () => waiter.isHolder());
      await waiter.acquire({ waitMs: Infinity });
      before = waiter;
    }
  }),

  looksKeepThePlace: promise('looking again changes no place', async (bench) => {
    const [holder, first, second] = [bench.contender(), bench.contender(), bench.contender()];
    await holder.acquire();
    const { ticket } = await first.queue();
    await second.queue();
    assert.equal((await second.queue()).kind, 'queued');
    assert.equal((await first.queue()).ticket, ticket);
    await second.queue({ ticket: 0 });
    assert.deepEqual((await holder.store.inspect(bench.key))?.pending, [first.owner, second.owner]);
  }),

  placePresented: promise(
    'a ticket that is presented again is ahead of those who came later',
    async (bench) => {
      const [holder, left, later] = [bench.contender(), bench.contender(), bench.contender()];
      await holder.acquire();
      const { ticket } = await left.queue();
      await later.queue();
      await left.end();
      const back = bench.contender();
      assert.equal((await back.queue({ ticket })).ticket, ticket);
      assert.deepEqual((await holder.store.inspect(bench.key))?.pending, [back.owner, later.owner]);
    },
  ),

  notWaitingNotInLine: promise('who asks once does not enter the line', async (bench) => {
    const [holder, impatient] = [bench.contender(), bench.contender()];
    await holder.acquire();
    assert.equal((await impatient.ask({ waitMs: 0 })).kind, 'busy');
    assert.deepEqual((await holder.store.inspect(bench.key))?.pending, []);
    await holder.end();
    assert.equal(await holder.store.inspect(bench.key), null);
  }),

  noOvertaking: promise('who asks once does not overtake those who wait', async (bench) => {
    const [dead, waiter, impatient] = [await bench.listener(), await bench.listener(), bench.contender()];
    await dead.acquire({ leaseMs: bench.shortLeaseMs });
    await waiter.queue();
    await bench.pass(2 * bench.shortLeaseMs);
    const reply = await impatient.ask({ waitMs: 0 });
    assert.deepEqual([reply.kind, reply.kind === 'busy' && reply.holder], ['busy', waiter.owner]);
  }),

  closedIsSkipped: promise('a waiter whose client is gone is passed over', async (bench) => {
    const [holder, gone, next] = [bench.contender(), await bench.listener(), await bench.listener()];
    await holder.acquire();
    await gone.queue();
    await next.queue();
    await gone.store.close();
    await holder.end();
    assert.ok(await next.isHolder(), 'it holds at once: nobody waited for the one that is gone');
  }),

  silentIsDropped: promise(
    'a waiter whose time is over and that never looks again is passed over',
    async (bench) => {
      const [holder, silent, next] = [bench.contender(), bench.contender(), bench.contender()];
      await holder.acquire();
      await silent.queue({ waitMs: bench.shortLeaseMs });
      await next.queue();
      await bench.pass(2 * bench.shortLeaseMs);
      await holder.end();
      await next.acquireInTurn();
      assert.ok(!silent.pushes.some((push) => push.kind === 'granted'));
    },
  ),

  endlessButGone: promise(
    'a waiter that would wait for ever but stopped looking is passed over',
    async (bench) => {
      const [holder, silent, next] = [bench.contender(), await bench.listener(), bench.contender()];
      await holder.acquire();
      const { recheckAfterMs: lookAfterMs } = await silent.queue();
      await bench.pass(4 * lookAfterMs);
      await next.queue();
      await holder.end();
      await next.acquireInTurn();
      assert.ok(!silent.pushes.some((push) => push.kind === 'granted'));
    },
  ),

  lookIsTheGrant: promise(
    'a lost push costs nothing but time: the next look is answered with the grant',
    async (bench) => {
      const [holder, deaf] = [bench.contender(), bench.contender()];
      await holder.acquire();
      await deaf.queue({ tokens: 3 });
      await holder.end();
      const grant = await deaf.acquireInTurn();
      const again = await deaf.acquire();
      assert.deepEqual([again.token, again.lastToken], [grant.token, grant.lastToken]);
      assert.ok(grant.confirmed);
    },
  ),

  grantsTellWhoWaits: promise('a grant tells how many others are in line', async (bench) => {
    const [holder, second, third] = [bench.contender(), bench.contender(), bench.contender()];
    assert.equal((await holder.acquire()).waiting, 0);
    await second.queue();
    await third.queue();
    assert.equal((await holder.acquire()).waiting, 2);
    await holder.end();
    assert.equal((await second.acquireInTurn()).waiting, 1);
  }),
} satisfies ContractGroup;
