import assert from 'node:assert/strict';
import type { Grant, LockStore } from '../../port/lock-store.js';
import type { ContractGroup, Stage } from './stage.js';
import type { TestOwner } from './test-owner.js';

function ownersFor(stage: Stage, count: number): TestOwner[] {
  const client = stage.client();
  return Array.from({ length: count }, (_, i) => stage.owner({ client, key: `${stage.key}:{same}:${i}` }));
}

/** A store may lack `acquireAll`. The core then acquires the keys one by one, and these cases have nothing to check. */
function cannot(stage: Stage): boolean {
  return !stage.client().acquireAll;
}

function askAll(owners: readonly TestOwner[]): ReturnType<Required<LockStore>['acquireAll']> {
  const store = owners[0]?.store as Required<LockStore>;
  return store.acquireAll(owners.map((owner) => owner.request({ tokens: 2 })));
}

async function acquireAll(owners: readonly TestOwner[]): Promise<readonly Grant[]> {
  const reply = await askAll(owners);
  assert.ok(reply && !('key' in reply), 'the keys should have been free');
  return reply;
}

/** A reply need not name a key that is in the way. If it does, that must be the right one. */
async function beRefused(owners: readonly TestOwner[], key: string | undefined): Promise<void> {
  const reply = await askAll(owners);
  if (reply !== null) assert.deepEqual(reply, { key });
}

export const several = {
  'several free keys are taken in one step, in the order asked': async (stage) => {
    if (cannot(stage)) return;
    const owners = ownersFor(stage, 3);
    const grants = await acquireAll(owners);
    assert.equal(grants.length, 3);
    for (const [i, owner] of owners.entries()) {
      const grant = grants[i] as Grant;
      assert.ok(await owner.isHolder());
      await owner.expectRenewed({ grant });
      assert.ok(grant.confirmed && grant.lastToken === grant.token + 1);
      assert.equal(await owner.release(), 'released');
    }
  },

  'if one of several keys is held, none is taken': async (stage) => {
    if (cannot(stage)) return;
    const owners = ownersFor(stage, 3);
    const holder = stage.owner({ key: owners[1]?.key ?? '' });
    await holder.acquire();
    await beRefused(owners, holder.key);
    for (const { key } of [owners[0], owners[2]] as TestOwner[]) {
      assert.equal(await holder.store.inspect(key), null);
    }
    assert.ok(await holder.isHolder());
  },

  'keys taken together get tokens larger than before': async (stage) => {
    if (cannot(stage)) return;
    const before = ownersFor(stage, 2);
    const first = await acquireAll(before);
    for (const owner of before) await owner.release();
    const second = await acquireAll(ownersFor(stage, 2));
    for (const i of [0, 1]) assert.ok((first[i]?.lastToken ?? 0) < (second[i]?.token ?? 0));
  },

  'nobody in the queue of one of several keys is overtaken': async (stage) => {
    if (cannot(stage)) return;
    const owners = ownersFor(stage, 2);
    const key = owners[0]?.key ?? '';
    const [holder, waiter] = [stage.owner({ key }), stage.owner({ key })];
    await holder.acquire();
    await waiter.queue();
    await holder.release();
    await beRefused(owners, key);
    await waiter.waitForGrant();
  },
} satisfies ContractGroup;
