import assert from 'node:assert/strict';
import type { ContractGroup } from './stage.js';

export const exclusion = {
  'a key that is held is busy for every other owner': async (stage) => {
    const holder = stage.owner();
    const neighbour = stage.owner({ client: holder.store });
    const other = stage.owner();
    await holder.acquire();
    await neighbour.expectBusy();
    await other.expectBusy();
    assert.ok(await holder.isHolder());
  },

  'of many that ask at once exactly one is granted': async (stage) => {
    const clients = [stage.client(), stage.client(), stage.client()];
    const owners = Array.from({ length: 12 }, (_, i) => stage.owner({ client: clients[i % clients.length] }));
    const replies = await Promise.all(owners.map((owner) => owner.tryAcquire()));
    assert.equal(replies.filter(({ kind }) => kind === 'granted').length, 1);
    assert.equal(replies.filter(({ kind }) => kind === 'busy').length, 11);
  },

  'locks of different keys do not touch each other': async (stage) => {
    const client = stage.client();
    const [one, two] = [stage.owner({ client }), stage.owner({ client, key: `${stage.key}:2` })];
    await one.acquire();
    await two.acquire();
    await one.release();
    assert.ok(await two.isHolder());
  },

  'an owner that asks again is answered with the same tokens': async (stage) => {
    const holder = stage.owner();
    const first = await holder.acquire({ tokens: 5 });
    const again = await holder.acquire({ tokens: 5 });
    assert.deepEqual([again.token, again.lastToken], [first.token, first.lastToken]);
    assert.equal(await holder.release(), 'released');
    // The owner may have had two grants for its two requests, but one release must free the key.
    await stage.owner().acquire();
  },

  'busy and queued tell who holds the lock, and for how long': async (stage) => {
    const [holder, impatient, patient] = await stage.held(3, { leaseMs: 20_000 });
    for (const reply of [await impatient.tryAcquire(), await patient.queue()]) {
      assert.ok(reply.kind !== 'granted');
      assert.equal(reply.holder, holder.owner);
      assert.ok(reply.remainingMs > 0 && reply.remainingMs <= 20_000, `${reply.remainingMs} ms`);
    }
  },

  'a grant is valid no longer than its lease, counted from the call': async (stage) => {
    const client = stage.client();
    let calls = 0;
    // On a busy machine the client may send the request some time after the call, and the lease starts only then. So try several times.
    await stage.eventually('a grant ends before its lease, counted from the call', async () => {
      const holder = stage.owner({ client, key: `${stage.key}:${++calls}` });
      const before = stage.clock.now();
      const { validUntil } = await holder.acquire({ leaseMs: 10_000 });
      assert.ok(validUntil > stage.clock.now(), 'it is valid when it arrives');
      return validUntil < before + 10_000;
    });
  },
} satisfies ContractGroup;
