import assert from 'node:assert/strict';
import { storeThatCan } from '../../port/capabilities.js';
import { isLockError } from '../../port/lock.errors.js';
import type { LockSnapshot } from '../../port/lock-store.js';
import { needing, type ContractGroup } from './stage.js';

export const inspection = {
  'nothing is told of a key that nobody holds and nobody waits for': async (stage) => {
    const holder = stage.owner();
    assert.equal(await holder.store.inspect(stage.key), null);
    await holder.acquire();
    await holder.release();
    assert.equal(await holder.store.inspect(stage.key), null);
  },

  'a snapshot tells the holder, its lease and token, and who waits, in order': async (stage) => {
    const [holder, second, third] = await stage.held(3, { leaseMs: 20_000 });
    await second.queue();
    await third.queue();
    const snapshot = await third.store.inspect(stage.key);
    assert.ok(snapshot);
    const { remainingMs, ...rest } = snapshot;
    assert.ok(remainingMs > 0 && remainingMs <= 20_000, `${remainingMs} ms`);
    assert.deepEqual(rest, {
      key: stage.key,
      mode: 'exclusive',
      holders: [holder.owner],
      pending: [second.owner, third.owner],
      fencingToken: holder.grant.lastToken,
    });
  },

  ...needing('names', {
    'what a client tells of itself is read by the others as it was written, until its lease is over': async (
      stage,
    ) => {
      const [client, other] = [stage.client(), stage.client()];
      const [{ clientId }, text] = [client, JSON.stringify(['shop "1"', "it's", '名\n\\', stage.key])];
      const read = async () => storeThatCan(other, 'names').readHolderEntries([clientId, other.clientId]);
      assert.deepEqual(await read(), [undefined, undefined]);
      await storeThatCan(client, 'names').publishHolderEntry({ clientId, text: 'before', leaseMs: 60_000 });
      await storeThatCan(client, 'names').publishHolderEntry({ clientId, text, leaseMs: 60_000 });
      assert.deepEqual(await read(), [text, undefined]);
      await storeThatCan(client, 'names').publishHolderEntry({ clientId, text, leaseMs: stage.shortLeaseMs });
      await stage.eventually('its lease is over', async () => (await read())?.[0] === undefined);
    },
  }),

  ...needing('list', {
    'keys that are held or waited for are listed in pages, as inspect tells of them, and no others': async (
      stage,
    ) => {
      const keyPrefix = `${stage.key}:`;
      const client = stage.client({ keyPrefix });
      const keys = ['a:1', 'a:2', 'a:3', 'a:4', 'a:[x]*', 'b:1'];
      for (const key of keys) await stage.owner({ client, key }).acquire();
      const [freed, waiter] = [stage.owner({ client, key: 'a:free' }), stage.owner({ client, key: 'a:2' })];
      await freed.acquire();
      await freed.release();
      await waiter.queue();
      await stage.owner().acquire();
      const listed = async (prefix: string) => {
        const found: LockSnapshot[] = [];
        for (let cursor: string | undefined, pages = 0; pages === 0 || cursor !== undefined; pages++) {
          assert.ok(pages < 1000);
          const page = await storeThatCan(client, 'list').list({
            prefix,
            limit: 2,
            ...(cursor !== undefined && { cursor }),
          });
          for (const entry of page?.entries ?? []) found.push(entry);
          cursor = page?.cursor;
        }
        return new Map(found.map((entry) => [entry.key, entry]));
      };
      const withA = await listed('a:');
      assert.deepEqual([...withA.keys()].sort(), keys.slice(0, 5));
      const { remainingMs, ...rest } = withA.get('a:2') as LockSnapshot;
      const { remainingMs: _, ...inspected } = (await client.inspect('a:2')) as LockSnapshot;
      assert.ok(remainingMs > 0);
      assert.deepEqual(rest, inspected);
      assert.deepEqual([...(await listed('')).keys()].sort(), keys);
      assert.deepEqual([...(await listed('a:[x]')).keys()], ['a:[x]*']);
      assert.deepEqual([...(await listed('c')).keys()], []);
    },

    'the first page of a list has the key that is the whole prefix, whatever else begins with it': async (
      stage,
    ) => {
      const client = stage.client({ keyPrefix: `${stage.key}:` });
      const keys = ['a:1:x', 'a:1', 'a:10', 'a:1 '];
      for (const key of keys) await stage.owner({ client, key }).acquire();
      for (const key of keys) {
        const page = await storeThatCan(client, 'list').list({ prefix: key, limit: 1 });
        const found = page?.entries.map((entry) => entry.key);
        assert.ok(found?.includes(key), `${key}: ${found?.join(' ')}`);
      }
    },

    'a prefix or a cursor that no key can have lists nothing, or is refused as such a key is': async (
      stage,
    ) => {
      const client = stage.client();
      await stage.owner({ client }).acquire();
      const isRefusedAsKey = (error: unknown) =>
        isLockError(error) && (error.code === 'LOCK_KEY' || error.code === 'LOCK_CONFIGURATION');
      for (const request of [
        { prefix: `${stage.key}\0` },
        { prefix: `${stage.key}\0`, cursor: `${stage.key}\0` },
      ]) {
        const page = await storeThatCan(client, 'list')
          .list({ ...request, limit: 2 })
          .catch((error: unknown) => {
            if (!isRefusedAsKey(error)) throw error;
          });
        assert.deepEqual(page?.entries ?? [], []);
      }
    },
  }),

  ...needing('force', {
    'a forced release frees the key, and tokens go on to grow': async (stage) => {
      const [holder, next] = await stage.held(2, { tokens: 100 });
      assert.equal(await storeThatCan(next.store, 'force').forceRelease(stage.key), 'released');
      await next.acquire();
      assert.ok(next.grant.token > holder.grant.lastToken);
      assert.equal(await holder.release(), 'not held');
      await holder.expectLost();
      assert.ok(await next.isHolder());
    },

    'a forced release of a free key says so': async (stage) => {
      assert.equal(await storeThatCan(stage.client(), 'force').forceRelease(stage.key), 'not held');
    },

    'a forced release tells the holder': async (stage) => {
      const [holder, other] = [await stage.subscribedOwner(), stage.owner()];
      await holder.acquire();
      await storeThatCan(other.store, 'force').forceRelease(stage.key);
      await holder.notified('lost');
    },

    'a forced release grants the next in the queue': async (stage) => {
      const [holder, next] = await stage.held(2);
      await next.queue();
      await storeThatCan(holder.store, 'force').forceRelease(stage.key);
      await next.waitForGrant();
      assert.ok(await next.isHolder());
    },
  }),
} satisfies ContractGroup;
