import assert from 'node:assert/strict';
import { LOCK } from '../../port/lock-store.js';
import type { ContractGroup } from './stage.js';

export const renewal = {
  'a renewed lock outlives its first lease': async (stage) => {
    const holder = stage.owner();
    // On a busy machine the renewal may be sent only after the first lease has ended. So try several times.
    await stage.eventually('a renewal within the first lease succeeds', async () => {
      const grant = await holder.acquire({ leaseMs: stage.shortLeaseMs });
      const before = stage.clock.now();
      const reply = await holder.renew({ leaseMs: 20_000, grant });
      if (reply.kind !== 'renewed') return false;
      assert.ok(reply.validUntil > stage.clock.now());
      return reply.validUntil < before + 20_000;
    });
    await stage.pass(2 * stage.shortLeaseMs);
    assert.ok(await holder.isHolder());
  },

  'a renewal sets the lease anew, also to a shorter one': async (stage) => {
    const [holder, successor] = await stage.held(2);
    await holder.renew({ leaseMs: stage.shortLeaseMs });
    await successor.waitForGrant();
  },

  'a renewal that arrives after expiry reports lost and does not bring the lock back': async (stage) => {
    const [holder] = await stage.held(1, { leaseMs: stage.shortLeaseMs });
    await holder.expires();
    await holder.expectLost({ leaseMs: 20_000 });
    await stage.owner().acquire();
  },

  'a renewal that is executed after the release reports lost and locks nothing': async (stage) => {
    const [holder] = await stage.held(1);
    await holder.release();
    await holder.expectLost();
    await stage.owner().acquire();
  },

  'a renewal under an earlier grant of the same owner reports lost': async (stage) => {
    const holder = stage.owner();
    const first = await holder.acquire({ leaseMs: stage.shortLeaseMs });
    await holder.expires();
    const second = await holder.acquire({ leaseMs: 20_000 });
    await holder.expectLost({ grant: first });
    await holder.expectRenewed({ grant: second });
  },

  'a batch of renewals is answered one by one, in order': async (stage) => {
    const client = stage.client();
    const owners = [1, 2, 3].map((n) => stage.owner({ client, key: `${stage.key}:${n}` }));
    for (const owner of owners) await owner.acquire();
    await owners[1]?.release();
    const renewals = owners.map(({ key, owner, grant: { token, lastToken } }) => {
      return { key, owner, claim: LOCK, leaseMs: 20_000, token, lastToken };
    });
    const replies = await client.renew(renewals);
    assert.deepEqual(
      replies.map(({ kind }) => kind),
      ['renewed', 'lost', 'renewed'],
    );
    assert.deepEqual(await client.renew([]), []);
  },

  'a renewal tells how many wait': async (stage) => {
    const [holder, waiter] = await stage.held(2);
    assert.deepEqual(waitingOf(await holder.renew()), 0);
    await waiter.queue();
    assert.deepEqual(waitingOf(await holder.renew()), 1);
  },
} satisfies ContractGroup;

function waitingOf(reply: { readonly kind: string; readonly waiting?: number }): number | undefined {
  assert.equal(reply.kind, 'renewed');
  return reply.waiting;
}
