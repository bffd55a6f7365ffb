import assert from 'node:assert/strict';
import { promise, type ContractGroup } from './contract-case.js';

export const pushes = {
  grantIsPushed: promise('the end of the holder pushes the grant to the next in line', async (bench) => {
    const [holder, next] = [bench.contender(), await bench.listener()];
    await holder.acquire();
    await next.queue({ tokens: 4 });
    await holder.end();
    const grant = await next.pushed('granted');
    assert.ok(await next.isHolder());
    assert.equal(grant.lastToken, grant.token + 3);
    assert.equal(grant.waiting, 0);
  }),

  longNumbers: promise('an owner may have a number of any length', async (bench) => {
    const [holder, { store }] = [bench.contender(), await bench.listener()];
    const numbers = ['900001', '10900001', `1${'0'.repeat(24)}1`];
    await holder.acquire();
    const line = numbers.map((number) => bench.ownerNamed(store, number));
    for (const owner of line) await owner.queue();
    await holder.end();
    for (const owner of line) {
      const grant = await owner.pushed('granted');
      assert.equal((await owner.renew({ grant })).kind, 'renewed');
      await owner.end();
    }
  }),

  pushedOnce: promise('a grant is pushed to its owner only', async (bench) => {
    const [holder, next, last] = [bench.contender(), await bench.listener(), await bench.listener()];
    const neighbour = bench.contender({ client: next.store });
    await holder.acquire();
    await next.queue();
    await neighbour.queue();
    await last.queue();
    await holder.end();
    await next.pushed('granted');
    assert.ok(![...neighbour.pushes, ...last.pushes].some((push) => push.kind === 'granted'));
  }),

  pushAndLookAgree: promise('the push and a look tell of the same grant', async (bench) => {
    const [holder, next] = [bench.contender(), await bench.listener()];
    await holder.acquire();
    await next.queue({ tokens: 4 });
    await holder.end();
    const pushed = await next.pushed('granted');
    const looked = await next.acquire({ tokens: 4 });
    assert.deepEqual([looked.token, looked.lastToken], [pushed.token, pushed.lastToken]);
  }),

  renewalConfirms: promise('a renewal confirms a pushed grant for a full lease', async (bench) => {
    const [holder, next] = [bench.contender(), await bench.listener()];
    await holder.acquire();
    await next.queue({ leaseMs: 20_000 });
    await holder.end();
    await next.pushed('granted');
    assert.equal((await next.renew()).kind, 'renewed');
    const remainingMs = (await next.store.inspect(bench.key))?.remainingMs ?? 0;
    assert.ok(remainingMs > 10_000, `${remainingMs} ms are left`);
  }),

  pushedNoLongerThanTheLease: promise(
    'a pushed grant is valid no longer than the lease asked for',
    async (bench) => {
      const [holder, next] = [bench.contender(), await bench.listener()];
      await holder.acquire();
      await next.queue({ leaseMs: 5000 });
      await holder.end();
      const { validUntil } = await next.pushed('granted');
      assert.ok(validUntil < bench.clock.now() + 5000);
    },
  ),

  holderIsWanted: promise('the holder is told when others join the line', async (bench) => {
    const [holder, waiter] = [await bench.listener(), bench.contender()];
    await holder.acquire();
    await waiter.queue();
    assert.equal((await holder.pushed('contended')).waiting, 1);
  }),

  lookRepeatsTheNotice: promise('a look tells the holder again that others wait', async (bench) => {
    const [holder, waiter] = [await bench.listener(), bench.contender()];
    await holder.acquire();
    await waiter.queue();
    await holder.pushed('contended');
    holder.pushes.length = 0;
    await waiter.queue();
    await holder.pushed('contended');
  }),
} satisfies ContractGroup;
