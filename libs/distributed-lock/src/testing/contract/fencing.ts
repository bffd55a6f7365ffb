import assert from 'node:assert/strict';
import { storeThatCan } from '../../port/capabilities.js';
import { needing, type ContractGroup } from './stage.js';

export const fencing = {
  'tokens grow with each grant, also with many in one millisecond': async (stage) => {
    const client = stage.client();
    const tokens: number[] = [];
    for (let i = 0; i < 30; i++) {
      const owner = stage.owner({ client });
      tokens.push((await owner.acquire()).token);
      await owner.release();
    }
    assertGrowing(tokens);
    assert.ok(tokens.every(Number.isSafeInteger));
  },

  'tokens grow across the crash of a holder': async (stage) => {
    const [crashed, successor] = await stage.held(2, { leaseMs: stage.shortLeaseMs, tokens: 100 });
    await crashed.store.close();
    await successor.waitForGrant();
    assert.ok(successor.grant.token > crashed.grant.lastToken);
  },

  'tokens grow across hand-offs and waiters that gave up': async (stage) => {
    const [first, second, quitter, last] = await stage.held(4);
    await second.queue({ tokens: 7 });
    await quitter.queue({ tokens: 7 });
    await last.queue();
    await first.release();
    await second.waitForGrant();
    await Promise.all([second.release(second.grant.token), quitter.release()]);
    await last.waitForGrant();
    assertGrowing([first.grant.token, second.grant.token, last.grant.token]);
  },

  'the tokens reserved by two grants are never the same': async (stage) => {
    const client = stage.client();
    let last = 0;
    for (const tokens of [1, 100, 3, 1000, 1]) {
      const owner = stage.owner({ client });
      const grant = await owner.acquire({ tokens });
      assert.equal(grant.lastToken - grant.token, tokens - 1, 'it has as many as were asked for');
      assert.ok(grant.token > last);
      last = grant.lastToken;
      await owner.release();
    }
  },

  'tokens that were used are never given out again, those given back may be': async (stage) => {
    const [first, second, third] = await stage.held(3, { tokens: 10 });
    const used = first.grant.token + 4;
    await first.release(used);
    await second.acquire({ tokens: 5 });
    assert.ok(second.grant.token > used);
    // Repeat the release. It must not make the store take back tokens that the second owner uses by now, even though the last token of
    // both grants may be the same.
    await first.release(used);
    await second.release();
    await third.acquire();
    assert.ok(third.grant.token > second.grant.lastToken);
  },

  'tokens that a lost holder says it did not use do not come again': async (stage) => {
    const [lost, next, last] = await stage.held(3, { leaseMs: stage.shortLeaseMs, tokens: 10 });
    await next.waitForGrant({ tokens: 5 });
    await lost.release(lost.grant.token);
    await next.release();
    await last.acquire();
    assert.ok(last.grant.token > next.grant.lastToken);
  },

  ...needing('force', {
    'tokens of an earlier grant of the same owner are not given back by its release': async (stage) => {
      const [holder, next] = stage.owners(2);
      const first = await holder.acquire({ tokens: 100_000 });
      await storeThatCan(next.store, 'force').forceRelease(stage.key);
      const second = await holder.acquire({ tokens: 100_000 });
      await holder.release(first.token);
      await next.acquire();
      assert.ok(next.grant.token > second.lastToken);
    },
  }),

  'a holder can reserve more tokens under the same grant, and they are nobody else’s': async (stage) => {
    const [holder, next] = stage.owners(2);
    const first = await holder.acquire();
    const tokens = 3_600_000_000;
    const lastToken = first.token + tokens - 1;
    const more = await holder.acquire({ tokens });
    assert.deepEqual([more.token, more.lastToken], [first.token, lastToken]);
    assert.equal((await holder.acquire({ tokens: tokens - 1 })).lastToken, lastToken);
    await holder.expectRenewed({ grant: more });
    await holder.release();
    await next.acquire();
    assert.ok(next.grant.token > lastToken);
  },
} satisfies ContractGroup;

function assertGrowing(tokens: readonly number[]): void {
  for (const [i, token] of tokens.entries()) {
    assert.ok(i === 0 || token > (tokens[i - 1] as number), `tokens must grow: ${tokens.join(', ')}`);
  }
}
