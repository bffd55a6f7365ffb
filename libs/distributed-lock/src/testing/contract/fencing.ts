import assert from 'node:assert/strict';
import type { Contender } from './contender.js';
import { promise, type ContractGroup } from './contract-case.js';

export const fencing = {
  growOverReleases: promise(
    'tokens grow with each grant, also with many in one millisecond',
    async (bench) => {
      const client = bench.client();
      const tokens: number[] = [];
      for (let i = 0; i < 30; i++) {
        const contender = bench.contender({ client });
        tokens.push((await contender.acquire()).token);
        await contender.end();
      }
      assertGrowing(tokens);
      assert.ok(tokens.every(Number.isSafeInteger));
    },
  ),

  growOverExpiry: promise('tokens grow across the crash of a holder', async (bench) => {
    const [crashed, successor] = [bench.contender(), bench.contender()];
    await crashed.acquire({ leaseMs: bench.shortLeaseMs, tokens: 100 });
    await crashed.store.close();
    await successor.acquireInTurn();
    assert.ok(successor.grant.token > crashed.grant.lastToken);
  }),

  growOverForce: promise('tokens grow across a forced release', async (bench) => {
    const [holder, next] = [bench.contender(), bench.contender()];
    await holder.acquire({ tokens: 100 });
    await holder.store.forceRelease(bench.key);
    await next.acquire();
    assert.ok(next.grant.token > holder.grant.lastToken);
  }),

  growOverHandOff: promise('tokens grow across hand-offs and waiters that gave up', async (bench) => {
    const line: Contender[] = [1, 2, 3, 4].map(() => bench.contender());
    const [first, second, quitter, last] = line as [Contender, Contender, Contender, Contender];
    await first.acquire();
    await second.queue({ tokens: 7 });
    await quitter.queue({ tokens: 7 });
    await last.queue();
    await first.end();
    await second.acquireInTurn();
    await Promise.all([second.end(second.grant.token), quitter.end()]);
    await last.acquireInTurn();
    assertGrowing([first.grant.token, second.grant.token, last.grant.token]);
  }),

  blocksDisjoint: promise('the tokens reserved by two grants are never the same', async (bench) => {
    const client = bench.client();
    let last = 0;
    for (const tokens of [1, 100, 3, 1000, 1]) {
      const contender = bench.contender({ client });
      const grant = await contender.acquire({ tokens });
      assert.equal(grant.lastToken - grant.token, tokens - 1, 'it has as many as were asked for');
      assert.ok(grant.token > last);
      last = grant.lastToken;
      await contender.end();
    }
  }),

  usedNeverAgain: promise(
    'tokens that were used are never given out again, those given back may be',
    async (bench) => {
      const [first, second, third] = [bench.contender(), bench.contender(), bench.contender()];
      await first.acquire({ tokens: 10 });
      const used = first.grant.token + 4;
      await first.end(used);
      await second.acquire({ tokens: 5 });
      assert.ok(second.grant.token > used);
      // Repeated, and with a block that may end at the same number: it must not bring back what is in use by now.
      await first.end(used);
      await second.end();
      await third.acquire();
      assert.ok(third.grant.token > second.grant.lastToken);
    },
  ),

  onlyTheHolderGivesBack: promise(
    'tokens that a lost holder says it did not use do not come again',
    async (bench) => {
      const [lost, next, last] = [bench.contender(), bench.contender(), bench.contender()];
      await lost.acquire({ leaseMs: bench.shortLeaseMs, tokens: 10 });
      await next.acquireInTurn({ tokens: 5 });
      await lost.end(lost.grant.token);
      await next.end();
      await last.acquire();
      assert.ok(last.grant.token > next.grant.lastToken);
    },
  ),
  onlyItsOwnGrantGivesBack: promise(
    'tokens of an earlier grant of the same owner are not given back by its end',
    async (bench) => {
      const [holder, next] = [bench.contender(), bench.contender()];
      const first = await holder.acquire({ tokens: 100_000 });
      await next.store.forceRelease(bench.key);
      const second = await holder.acquire({ tokens: 100_000 });
      await holder.end(first.token);
      await next.acquire();
      assert.ok(next.grant.token > second.lastToken);
    },
  ),

  reserveMoreWhileHolding: promise(
    'whoever holds the lock can reserve more tokens, under the same grant, and they are nobody else’s',
    async (bench) => {
      const [holder, next] = [bench.contender(), bench.contender()];
      const first = await holder.acquire();
      const reserveTo = first.lastToken + 3_600_000_000;
      const more = await holder.acquire({ minLastToken: reserveTo });
      assert.deepEqual([more.token, more.lastToken], [first.token, reserveTo]);
      assert.equal((await holder.acquire({ minLastToken: reserveTo - 1 })).lastToken, reserveTo);
      assert.equal((await holder.renew({ grant: more })).kind, 'renewed');
      await holder.end();
      await next.acquire();
      assert.ok(next.grant.token > reserveTo);
    },
  ),
} satisfies ContractGroup;

function assertGrowing(tokens: readonly number[]): void {
  for (const [i, token] of tokens.entries()) {
    assert.ok(i === 0 || token > (tokens[i - 1] as number), `tokens must grow: ${tokens.join(', ')}`);
  }
}
