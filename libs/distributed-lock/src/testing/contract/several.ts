import assert from 'node:assert/strict';
import type { Grant, LockStore } from '../../port/lock-store.js';
import type { Bench } from './bench.js';
import type { Contender } from './contender.js';
import { promise, type ContractGroup } from './contract-case.js';

function contendersFor(bench: Bench, count: number): Contender[] {
  const client = bench.client();
  return Array.from({ length: count }, (_, i) =>
    bench.contender({ client, key: `${bench.key}:{same}:${i}` }),
  );
}

function askAll(contenders: readonly Contender[]): ReturnType<Required<LockStore>['acquireAll']> {
  const store = contenders[0]?.store as Required<LockStore>;
  return store.acquireAll(contenders.map((contender) => contender.asks({ tokens: 2 })));
}

async function acquireAll(contenders: readonly Contender[]): Promise<readonly Grant[]> {
  const reply = await askAll(contenders);
  assert.ok(reply && !('key' in reply), 'the keys should have been free');
  return reply;
}

/** It may say which key is in the way; if it does, it is the right one. */
async function beRefused(contenders: readonly Contender[], key: string | undefined): Promise<void> {
  const reply = await askAll(contenders);
  if (reply !== null) assert.deepEqual(reply, { key });
}

export const several = {
  allAtOnce: promise('several free keys are taken in one step, in the order asked', async (bench) => {
    const contenders = contendersFor(bench, 3);
    const grants = await acquireAll(contenders);
    assert.equal(grants.length, 3);
    for (const [i, contender] of contenders.entries()) {
      const grant = grants[i] as Grant;
      assert.ok(await contender.isHolder());
      assert.equal((await contender.renew({ grant })).kind, 'renewed');
      assert.ok(grant.confirmed && grant.lastToken === grant.token + 1);
      assert.equal(await contender.end(), 'released');
    }
  }),

  allOrNone: promise('if one of several keys is held, none is taken', async (bench) => {
    const contenders = contendersFor(bench, 3);
    const holder = bench.contender({ key: contenders[1]?.key ?? '' });
    await holder.acquire();
    await beRefused(contenders, holder.key);
    for (const { key } of [contenders[0], contenders[2]] as Contender[]) {
      assert.equal(await holder.store.inspect(key), null);
    }
    assert.ok(await holder.isHolder());
  }),

  severalTokens: promise('keys taken together get tokens larger than before', async (bench) => {
    const before = contendersFor(bench, 2);
    const first = await acquireAll(before);
    for (const contender of before) await contender.end();
    const second = await acquireAll(contendersFor(bench, 2));
    for (const i of [0, 1]) assert.ok((first[i]?.lastToken ?? 0) < (second[i]?.token ?? 0));
  }),

  severalNeverOvertake: promise('nobody in line for one of several keys is overtaken', async (bench) => {
    const contenders = contendersFor(bench, 2);
    const key = contenders[0]?.key ?? '';
    const [holder, waiter] = [bench.contender({ key }), bench.contender({ key })];
    await holder.acquire();
    await waiter.queue();
    await holder.end();
    await beRefused(contenders, key);
    await waiter.acquireInTurn();
  }),
} satisfies ContractGroup;
