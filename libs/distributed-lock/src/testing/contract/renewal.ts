import assert from 'node:assert/strict';
import { LOCK } from '../../port/claim.js';
import { promise, type ContractGroup } from './contract-case.js';

export const renewal = {
  renewalKeeps: promise('a renewed lock outlives its first lease', async (bench) => {
    const holder = bench.contender();
    await holder.acquire({ leaseMs: bench.shortLeaseMs });
    const before = bench.clock.now();
    const reply = await holder.renew({ leaseMs: 20_000 });
    assert.equal(reply.kind, 'renewed');
    assert.ok(reply.validUntil > bench.clock.now() && reply.validUntil < before + 20_000);
    await bench.pass(2 * bench.shortLeaseMs);
    assert.ok(await holder.isHolder());
  }),

  renewalShortens: promise('a renewal sets the lease anew, also to a shorter one', async (bench) => {
    const [holder, successor] = [bench.contender(), bench.contender()];
    await holder.acquire();
    await holder.renew({ leaseMs: bench.shortLeaseMs });
    await successor.acquireInTurn();
  }),

  noResurrection: promise(
    'a renewal that arrives after expiry reports lost and does not bring the lock back',
    async (bench) => {
      const holder = bench.contender();
      await holder.acquire({ leaseMs: bench.shortLeaseMs });
      await bench.eventually('the lease is over', async () => !(await holder.isHolder()));
      assert.equal((await holder.renew({ leaseMs: 20_000 })).kind, 'lost');
      assert.equal((await bench.contender().ask()).kind, 'granted');
    },
  ),

  successorUntouched: promise('a renewal by an expired holder leaves its successor alone', async (bench) => {
    const [expired, successor] = [bench.contender(), bench.contender()];
    await expired.acquire({ leaseMs: bench.shortLeaseMs });
    await successor.acquireInTurn();
    assert.equal((await expired.renew()).kind, 'lost');
    assert.ok(await successor.isHolder());
  }),

  renewalAfterEnd: promise(
    'a renewal that is executed after the end reports lost and locks nothing',
    async (bench) => {
      const holder = bench.contender();
      await holder.acquire();
      await holder.end();
      assert.equal((await holder.renew()).kind, 'lost');
      assert.equal((await bench.contender().ask()).kind, 'granted');
    },
  ),

  renewalNamesItsGrant: promise(
    'a renewal under an earlier grant of the same owner reports lost',
    async (bench) => {
      const holder = bench.contender();
      const first = await holder.acquire({ leaseMs: bench.shortLeaseMs });
      await bench.eventually('the lease is over', async () => !(await holder.isHolder()));
      const second = await holder.acquire({ leaseMs: 20_000 });
      assert.equal((await holder.renew({ grant: first })).kind, 'lost');
      assert.equal((await holder.renew({ grant: second })).kind, 'renewed');
    },
  ),

  batchInOrder: promise('a batch of renewals is answered one by one, in order', async (bench) => {
    const client = bench.client();
    const contenders = [1, 2, 3].map((n) => bench.contender({ client, key: `${bench.key}:${n}` }));
    for (const contender of contenders) await contender.acquire();
    await contenders[1]?.end();
    const renewals = contenders.map(({ key, owner, grant: { token, lastToken } }) => {
      return { key, owner, claim: LOCK, leaseMs: 20_000, token, lastToken };
    });
    const replies = await client.renew(renewals);
    assert.deepEqual(
      replies.map(({ kind }) => kind),
      ['renewed', 'lost', 'renewed'],
    );
    assert.deepEqual(await client.renew([]), []);
  }),

  renewalTellsWhoWaits: promise('a renewal tells how many wait', async (bench) => {
    const [holder, waiter] = [bench.contender(), bench.contender()];
    await holder.acquire();
    assert.deepEqual(waitingOf(await holder.renew()), 0);
    await waiter.queue();
    assert.deepEqual(waitingOf(await holder.renew()), 1);
  }),
} satisfies ContractGroup;

function waitingOf(reply: { readonly kind: string; readonly waiting?: number }): number | undefined {
  assert.equal(reply.kind, 'renewed');
  return reply.waiting;
}
