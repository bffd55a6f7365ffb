import assert from 'node:assert/strict';
import { storeThatCan } from '../../port/capabilities.js';
import { needing, type ContractGroup } from './stage.js';

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
  ...needing('force', {
    'a prefix and a key are one name in the back end': async (stage) => {
      const prefixed = stage.owner({ client: stage.client({ keyPrefix: 'contract:prefix:' }) });
      const spelled = stage.owner({ key: `contract:prefix:${stage.key}` });
      await prefixed.acquire();
      await spelled.expectBusy();
      assert.equal((await prefixed.store.inspect(stage.key))?.key, stage.key);
      assert.deepEqual((await spelled.store.inspect(spelled.key))?.holders, [prefixed.owner]);
      await prefixed.expectRenewed();
      await spelled.queue();
      assert.equal(await prefixed.release(), 'released');
      await spelled.waitForGrant();
      assert.equal(await storeThatCan(prefixed.store, 'force').forceRelease(stage.key), 'released');
    },
  }),

  'the same key under two prefixes is two locks': async (stage) => {
    await stage.owner({ client: stage.client({ keyPrefix: 'contract:one:' }) }).acquire();
    await stage.owner({ client: stage.client({ keyPrefix: 'contract:two:' }) }).acquire();
  },

  'a key may consist of any characters': async (stage) => {
    const client = stage.client();
    for (const odd of ODD) {
      const key = `${odd}${stage.key}`;
      const [holder, waiter] = [stage.owner({ client, key }), stage.owner({ client, key })];
      await holder.acquire();
      await waiter.queue();
      assert.deepEqual((await client.inspect(key))?.pending, [waiter.owner], key);
      await holder.expectRenewed();
      assert.equal(await holder.release(), 'released', key);
      await waiter.waitForGrant();
      assert.equal(await waiter.release(), 'released', key);
    }
  },

  'keys that differ in one character or in length only are different locks': async (stage) => {
    const client = stage.client();
    const similar = ['x', 'X', 'x ', ' x', 'xx', 'x'.repeat(1000), `${'x'.repeat(999)}y`, 'ä', 'a\u0308'];
    for (const ending of similar) await stage.owner({ client, key: `${stage.key}${ending}` }).acquire();
  },
} satisfies ContractGroup;
