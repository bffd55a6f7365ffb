import assert from 'node:assert/strict';
import { promise, type ContractGroup } from './contract-case.js';

export const closing = {
  closeRepeatable: promise('a client may be closed twice, used or not', async (bench) => {
    const [unused, used] = [bench.client(), bench.contender()];
    await used.acquire();
    await Promise.all([unused.close(), used.store.close()]);
    await Promise.all([unused.close(), used.store.close()]);
  }),

  othersStay: promise('a client that closes disturbs no other', async (bench) => {
    const [leaving, holder, waiter] = [bench.contender(), bench.contender(), bench.contender()];
    await leaving.ask();
    await leaving.end();
    await holder.acquire();
    await waiter.queue();
    await leaving.store.close();
    assert.ok(await holder.isHolder());
    await holder.end();
    await waiter.acquireInTurn();
  }),

  pushesEnd: promise('the pushes of a client complete when it is closed', async (bench) => {
    const client = bench.client();
    let isComplete = false;
    client.notifications$.subscribe({ complete: () => (isComplete = true) });
    await client.close();
    assert.ok(isComplete);
  }),

  ownNames: promise('each client has an id of its own', async (bench) => {
    const ids = [1, 2, 3].map(() => bench.client().clientId);
    assert.equal(new Set(ids).size, 3);
  }),
} satisfies ContractGroup;
