import assert from 'node:assert/strict';
import { promise, type ContractGroup } from './contract-case.js';

export const exclusion = {
  oneHolder: promise('a key that is held is busy for every other owner', async (bench) => {
    const holder = bench.contender();
    const neighbour = bench.contender({ client: holder.store });
    const other = bench.contender();
    await holder.acquire();
    assert.equal((await neighbour.ask()).kind, 'busy');
    assert.equal((await other.ask()).kind, 'busy');
    assert.ok(await holder.isHolder());
  }),

  oneOfMany: promise('of many that ask at once exactly one is granted', async (bench) => {
    const clients = [bench.client(), bench.client(), bench.client()];
    const contenders = Array.from({ length: 12 }, (_, i) =>
      bench.contender({ client: clients[i % clients.length] }),
    );
    const replies = await Promise.all(contenders.map((contender) => contender.ask()));
    assert.equal(replies.filter(({ kind }) => kind === 'granted').length, 1);
    assert.equal(replies.filter(({ kind }) => kind === 'busy').length, 11);
  }),

  keysAreIndependent: promise('locks of different keys do not touch each other', async (bench) => {
    const client = bench.client();
    const [one, two] = [bench.contender({ client }), bench.contender({ client, key: `${bench.key}:2` })];
    await one.acquire();
    await two.acquire();
    await one.end();
    assert.ok(await two.isHolder());
  }),

  sameAnswerAgain: promise('an owner that asks again is answered with the same tokens', async (bench) => {
    const holder = bench.contender();
    const first = await holder.acquire({ tokens: 5 });
    const again = await holder.acquire({ tokens: 5 });
    assert.deepEqual([again.token, again.lastToken], [first.token, first.lastToken]);
    assert.equal(await holder.end(), 'released');
    assert.equal((await bench.contender().ask()).kind, 'granted', 'one end is enough for two answers');
  }),

  busyTellsWhy: promise('busy and queued tell who holds the lock, and for how long', async (bench) => {
    const [holder, impatient, patient] = [bench.contender(), bench.contender(), bench.contender()];
    await holder.acquire({ leaseMs: 20_000 });
    for (const reply of [await impatient.ask(), await patient.queue()]) {
      assert.ok(reply.kind !== 'granted');
      assert.equal(reply.holder, holder.owner);
      assert.ok(reply.remainingMs > 0 && reply.remainingMs <= 20_000, `${reply.remainingMs} ms`);
    }
  }),

  validNoLongerThanTheLease: promise(
    'a grant is valid no longer than its lease, counted from the call',
    async (bench) => {
      const holder = bench.contender();
      const before = bench.clock.now();
      const { validUntil } = await holder.acquire({ leaseMs: 10_000 });
      assert.ok(validUntil > bench.clock.now(), 'it is valid when it arrives');
      assert.ok(validUntil < before + 10_000, 'and a margin is taken off');
    },
  ),
} satisfies ContractGroup;
