import assert from 'node:assert/strict';
import type { ContractGroup } from './stage.js';

export const closing = {
  'a client may be closed twice, used or not': async (stage) => {
    const [unused, used] = [stage.client(), stage.owner()];
    await used.acquire();
    await Promise.all([unused.close(), used.store.close()]);
    await Promise.all([unused.close(), used.store.close()]);
  },

  'a client that closes disturbs no other': async (stage) => {
    const [leaving, holder, waiter] = stage.owners(3);
    await leaving.tryAcquire();
    await leaving.release();
    await holder.acquire();
    await waiter.queue();
    await leaving.store.close();
    assert.ok(await holder.isHolder());
    await holder.release();
    await waiter.waitForGrant();
  },

  'the notifications of a client complete when it is closed': async (stage) => {
    const client = stage.client();
    let isComplete = false;
    client.notifications$.subscribe({ complete: () => (isComplete = true) });
    await client.close();
    assert.ok(isComplete);
  },

  'each client has an id of its own': async (stage) => {
    const ids = [1, 2, 3].map(() => stage.client().clientId);
    assert.equal(new Set(ids).size, 3);
  },
} satisfies ContractGroup;
