import assert from 'node:assert/strict';
import { storeThatCan } from '../../port/capabilities.js';
import { placeholderOf } from '../../port/lock-store.js';
import { needing, type ContractGroup } from './stage.js';
import type { TestOwner } from './test-owner.js';

const GRACE_MS = 1500;
const BY = 'the "shop" on pod-7 (修理: é\n[{]) ';

export const takeover = {
  'owners with negative tickets are granted before all others that wait, in order of their tickets': async (
    stage,
  ) => {
    const [holder, waiter, later, earlier] = await stage.held(4);
    await waiter.queue();
    await later.queue({ ticket: -5 });
    const { ticket } = await earlier.queue({ ticket: 1 - Number.MAX_SAFE_INTEGER });
    assert.equal(ticket, 1 - Number.MAX_SAFE_INTEGER);
    await holder.release();
    for (const owner of [earlier, later, waiter]) {
      await owner.waitForGrant();
      await owner.release();
    }
  },

  ...needing('takeover', {
    'a holder is told who takes its lock over, and still holds': async (stage) => {
      const [holder, waiter, taker] = [await stage.subscribedOwner(), stage.owner(), stage.owner()];
      await holder.acquire();
      await waiter.queue();
      assert.equal(await announce(taker, holder), 'announced');
      const { graceMs, by } = await holder.notified('takeover');
      assert.deepEqual({ graceMs, by }, { graceMs: GRACE_MS, by: BY });
      await holder.expectRenewed();
      assert.ok(await holder.isHolder());
      assert.ok(!waiter.wasNotified('takeover'));
    },

    'a takeover of an owner that holds no more is told to nobody': async (stage) => {
      const [former, holder, taker] = [stage.owner(), await stage.subscribedOwner(), stage.owner()];
      await former.acquire();
      await former.release();
      await holder.acquire();
      await announce(taker, former);
      await taker.queue();
      await holder.notified('contended');
      assert.ok(!holder.wasNotified('takeover'));
      await holder.expectRenewed();
    },

    'a takeover of the rest of a minimum hold finds nobody to tell, and force ends it': async (stage) => {
      const [former, taker] = [stage.owner(), await stage.subscribedOwner()];
      await former.acquire();
      await former.release(undefined, stage.clock.now() + 20_000);
      const { key } = former;
      const owner = placeholderOf(former.owner);
      assert.equal((await taker.queue()).holder, owner);
      assert.equal(await announce(taker, { key, owner }), 'nobody to tell');
      assert.equal(
        await storeThatCan(taker.store, 'force').forceRelease(key, { owners: [owner] }),
        'released',
      );
      await taker.waitForGrant();
    },

    'a forced release of one holder grants the next in the queue under a larger token': async (stage) => {
      const [holder, next] = [await stage.subscribedOwner(), await stage.subscribedOwner()];
      await holder.acquire({ tokens: 100 });
      await next.queue();
      await announce(next, holder);
      assert.equal(
        await storeThatCan(next.store, 'force').forceRelease(stage.key, { owners: [holder.owner] }),
        'released',
      );
      const { token } = await next.notified('granted');
      assert.ok(token > holder.grant.lastToken);
      await holder.notified('lost');
      await holder.expectLost();
      await next.expectRenewed();
    },
  }),

  ...needing('force', {
    'a forced release of an owner that holds no more takes the lock from nobody': async (stage) => {
      const [former, holder, taker] = await stage.held(3);
      await former.release();
      assert.equal(
        await storeThatCan(taker.store, 'force').forceRelease(stage.key, { owners: [former.owner] }),
        'not held',
      );
      await holder.acquire();
      await taker.queue();
      for (const owners of [[former.owner], [former.owner, taker.owner], []]) {
        assert.equal(
          await storeThatCan(taker.store, 'force').forceRelease(stage.key, { owners }),
          'held by another',
        );
      }
      assert.ok(await holder.isHolder());
      await holder.expectRenewed();
      await holder.release();
      await taker.waitForGrant();
    },

    'a forced release of owners that were seen leaves the lock to readers that came since': async (stage) => {
      const [one, two, since, writer] = stage.owners(4);
      const claim = { kind: 'shared' } as const;
      await one.acquire({ claim });
      await two.acquire({ claim });
      const seen = (await one.store.inspect(stage.key))?.holders ?? [];
      assert.deepEqual([...seen].sort(), [one.owner, two.owner].sort());
      await since.acquire({ claim });
      assert.equal(
        await storeThatCan(writer.store, 'force').forceRelease(stage.key, { owners: seen }),
        'released',
      );
      await one.expectLost({ claim });
      await two.expectLost({ claim });
      await since.expectRenewed();
      assert.equal(
        await storeThatCan(writer.store, 'force').forceRelease(stage.key, { owners: seen }),
        'held by another',
      );
      await since.release();
      await writer.acquire({ claim: { kind: 'exclusive' } });
    },

    'a forced release of one reader leaves the others their lock': async (stage) => {
      const [one, two, writer] = stage.owners(3);
      const claim = { kind: 'shared' } as const;
      await one.acquire({ claim });
      await two.acquire({ claim });
      await writer.queue({ claim: { kind: 'exclusive' } });
      assert.equal(
        await storeThatCan(writer.store, 'force').forceRelease(stage.key, { owners: [one.owner] }),
        'released',
      );
      await one.expectLost();
      await two.expectRenewed();
      assert.equal(
        await storeThatCan(writer.store, 'force').forceRelease(stage.key, { owners: [two.owner] }),
        'released',
      );
      await writer.waitForGrant();
    },
  }),
} satisfies ContractGroup;

function announce(
  taker: TestOwner,
  { key, owner }: Pick<TestOwner, 'key' | 'owner'>,
): Promise<'announced' | 'nobody to tell'> {
  return storeThatCan(taker.store, 'takeover').announceTakeover({ key, owner, graceMs: GRACE_MS, by: BY });
}
