import assert from 'node:assert/strict';
import { promise, type ContractGroup } from './contract-case.js';

const ODD = [
  'größe:日本:🔒',
  'a b\tc\nd',
  `it's "quoted" \\ back`,
  '{tag}:7',
  'a{b',
  '}{',
  '{}',
  '%s %d $1',
  '*?[x]',
];

export const keys = {
  prefixIsPartOfTheName: promise('a prefix and a key are one name in the back end', async (bench) => {
    const prefixed = bench.contender({ client: bench.client({ keyPrefix: 'contract:prefix:' }) });
    const spelled = bench.contender({ key: `contract:prefix:${bench.key}` });
    await prefixed.acquire();
    assert.equal((await spelled.ask()).kind, 'busy');
    assert.equal((await prefixed.store.inspect(bench.key))?.key, bench.key);
    assert.deepEqual((await spelled.store.inspect(spelled.key))?.holders, [prefixed.owner]);
    assert.equal((await prefixed.renew()).kind, 'renewed');
    assert.equal(await prefixed.end(), 'released');
    await spelled.acquire();
    assert.equal(await prefixed.store.forceRelease(bench.key), 'released');
  }),

  prefixesSeparate: promise('the same key under two prefixes is two locks', async (bench) => {
    await bench.contender({ client: bench.client({ keyPrefix: 'contract:one:' }) }).acquire();
    await bench.contender({ client: bench.client({ keyPrefix: 'contract:two:' }) }).acquire();
  }),

  prefixAndLine: promise('a prefix holds for the line as well', async (bench) => {
    const client = bench.client({ keyPrefix: 'contract:line:' });
    const [holder, waiter] = [bench.contender({ client }), bench.contender({ client })];
    await holder.acquire();
    await waiter.queue();
    await holder.end();
    await waiter.acquireInTurn();
  }),

  anyCharacters: promise('a key may consist of any characters', async (bench) => {
    const client = bench.client();
    for (const odd of ODD) {
      const key = `${odd}${bench.key}`;
      const [holder, waiter] = [bench.contender({ client, key }), bench.contender({ client, key })];
      await holder.acquire();
      await waiter.queue();
      assert.deepEqual((await client.inspect(key))?.pending, [waiter.owner], key);
      assert.equal((await holder.renew()).kind, 'renewed', key);
      assert.equal(await holder.end(), 'released', key);
      await waiter.acquireInTurn();
      assert.equal(await waiter.end(), 'released', key);
    }
  }),

  similarKeys: promise(
    'keys that differ in one character or in length only are different locks',
    async (bench) => {
      const client = bench.client();
      const similar = ['x', 'X', 'x ', ' x', 'xx', 'x'.repeat(1000), `${'x'.repeat(999)}y`, 'ä', 'a\u0308'];
      for (const ending of similar) await bench.contender({ client, key: `${bench.key}${ending}` }).acquire();
    },
  ),
} satisfies ContractGroup;
