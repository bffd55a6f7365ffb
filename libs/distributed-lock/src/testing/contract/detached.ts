import assert from 'node:assert/strict';
import { type Claim, isExclusive } from '../../port/lock-store.js';
import { needing, type ContractGroup } from './stage.js';

const LEASE_MS = 20_000;
const CLAIMS: readonly Claim[] = [
  { kind: 'lock' },
  { kind: 'exclusive' },
  { kind: 'shared' },
  { kind: 'permits', permits: 3, weight: 2 },
];
/** What may not enter beside each of these. */
const WRITER: Claim = { kind: 'exclusive' };
const rivalOf = (claim: Claim): Claim => (claim.kind === 'permits' ? claim : WRITER);

export const detachedLocks = needing('attach', {
  'another owner goes on with a detached lock under the same token, and nobody gets in between': async (
    stage,
  ) => {
    for (const [i, claim] of CLAIMS.entries()) {
      const key = `${stage.key}:${i}`;
      const [holder, waiter, next] = [stage.owner({ key }), stage.owner({ key }), stage.owner({ key })];
      const token = (await holder.acquire({ claim, tokens: 10 })).token + 3;
      await waiter.queue({ claim: rivalOf(claim) });
      assert.equal(await holder.detach(token, LEASE_MS), 'released');
      await holder.expectLost();
      assert.equal((await waiter.queue()).kind, 'queued');
      const grant = await next.attach(holder, token, { claim });
      assert.deepEqual([grant.kind, next.grant.token, next.grant.lastToken], ['granted', token, token]);
      await next.expectRenewed();
      assert.deepEqual((await next.store.inspect(key))?.holders, [next.owner]);
      assert.equal((await waiter.queue()).kind, 'queued');
      await next.release();
      assert.ok((await waiter.waitForGrant()).token > token);
    }
  },

  'a detached lock is attached once, and the same request may come twice': async (stage) => {
    for (const [i, claim] of CLAIMS.entries()) {
      const key = `${stage.key}:${i}`;
      const [holder, next, second] = [stage.owner({ key }), stage.owner({ key }), stage.owner({ key })];
      const { token } = await holder.acquire({ claim });
      await holder.detach(token, LEASE_MS);
      for (let copy = 1; copy <= 2; copy++)
        assert.equal((await next.attach(holder, token, { claim })).kind, 'granted');
      assert.equal((await second.attach(holder, token, { claim })).kind, 'busy');
      await next.expectRenewed();
      await next.release();
      assert.equal((await second.attach(holder, token, { claim })).kind, 'busy');
      assert.equal((await next.store.inspect(key))?.holders.length ?? 0, 0);
    }
  },

  'a detached lock whose lease has run out is not attached': async (stage) => {
    for (const [i, claim] of CLAIMS.entries()) {
      const key = `${stage.key}:${i}`;
      const [holder, beside, next] = [stage.owner({ key }), stage.owner({ key }), stage.owner({ key })];
      const { token } = await holder.acquire({ claim });
      // Beside another holder, a store may keep the one whose lease is over until somebody needs its place.
      if (!isExclusive(claim)) await beside.acquire({ claim: { ...claim, weight: 1 } as Claim });
      await holder.detach(token, stage.shortLeaseMs);
      await stage.pass(2 * stage.shortLeaseMs);
      assert.equal((await next.attach(holder, token, { claim })).kind, 'busy');
    }
  },

  'an owner that works cannot be attached to, nor one that is gone': async (stage) => {
    const [holder, thief] = await stage.held(2);
    const { token } = holder.grant;
    assert.equal((await thief.attach(holder, token)).kind, 'busy');
    await holder.expectRenewed();
    await holder.release();
    assert.equal((await thief.attach(holder, token)).kind, 'busy');
    assert.equal(await stage.client().inspect(stage.key), null);
  },

  'the token of another grant attaches nothing': async (stage) => {
    const [holder, next] = await stage.held(2);
    const { token } = holder.grant;
    await holder.detach(token, LEASE_MS);
    assert.equal((await next.attach(holder, token + 1)).kind, 'busy');
    assert.equal((await next.attach(holder, token)).kind, 'granted');
  },

  'the reply to the owner that attaches says who waits, and the holder is told of later ones': async (
    stage,
  ) => {
    const holder = await stage.subscribedOwner();
    const next = await stage.subscribedOwner();
    const [waiter, later] = stage.owners(2);
    const { token } = await holder.acquire();
    await holder.detach(token, LEASE_MS);
    await waiter.queue();
    const reply = await next.attach(holder, token);
    assert.equal(reply.kind === 'granted' && reply.waiting, 1);
    await later.queue();
    await next.notified('contended');
  },
} satisfies ContractGroup);
