import assert from 'node:assert/strict';
import type { Claim } from '../../port/claim.js';
import type { Bench } from './bench.js';
import { promise, type ContractGroup } from './contract-case.js';

const shared: Claim = { kind: 'shared' };
const exclusive: Claim = { kind: 'exclusive' };
const ALONE: readonly Claim[] = [exclusive, { kind: 'lock' }];

async function readers(bench: Bench, count: number) {
  const all = Array.from({ length: count }, () => bench.contender());
  for (const reader of all) await reader.acquire({ claim: shared });
  return all;
}

export const sharing = {
  readersTogether: promise('readers hold together', async (bench) => {
    const [one, two, three] = await readers(bench, 3);
    const snapshot = await bench.client().inspect(bench.key);
    assert.equal(snapshot?.mode, 'shared');
    assert.deepEqual(new Set(snapshot.holders), new Set([one?.owner, two?.owner, three?.owner]));
  }),

  writersAlone: promise('who holds alone excludes readers, writers and plain locks', async (bench) => {
    for (const held of ALONE) {
      const holder = bench.contender();
      await holder.acquire({ claim: held });
      for (const claim of [...ALONE, shared]) {
        assert.equal(
          (await bench.contender().ask({ claim })).kind,
          'busy',
          `${claim.kind} beside ${held.kind}`,
        );
      }
      await holder.end();
    }
  }),

  readersKeepWritersOut: promise('a writer waits for the last reader, and no longer', async (bench) => {
    for (const claim of ALONE) {
      const [one, two] = await readers(bench, 2);
      const writer = bench.contender();
      await writer.queue({ claim });
      await one?.end();
      assert.equal((await writer.ask({ waitMs: Infinity })).kind, 'queued');
      await two?.end();
      await writer.acquireInTurn();
      await writer.end();
    }
  }),

  writerIsNotOvertaken: promise('a writer in line is not overtaken by later readers', async (bench) => {
    const [first] = await readers(bench, 1);
    const [writer, later, impatient] = [bench.contender(), bench.contender(), bench.contender()];
    await writer.queue({ claim: exclusive });
    await later.queue({ claim: shared });
    assert.equal((await impatient.ask({ claim: shared })).kind, 'busy');
    await first?.end();
    await writer.acquireInTurn();
    assert.equal((await later.ask({ waitMs: Infinity })).kind, 'queued');
    await writer.end();
    await later.acquireInTurn();
  }),

  readersEnterTogether: promise('readers that stand together in line enter together', async (bench) => {
    const writer = bench.contender();
    await writer.acquire({ claim: exclusive });
    const waiting = Array.from({ length: 3 }, () => bench.contender());
    for (const reader of waiting) await reader.queue({ claim: shared });
    const next = bench.contender();
    await next.queue({ claim: exclusive });
    await writer.end();
    for (const reader of waiting) await reader.acquireInTurn();
    assert.equal((await next.ask({ waitMs: Infinity })).kind, 'queued');
    for (const reader of waiting) await reader.end();
    await next.acquireInTurn();
  }),

  leavingWriterLetsReadersIn: promise(
    'readers behind a writer that leaves the line enter beside those inside',
    async (bench) => {
      await readers(bench, 1);
      const [writer, later] = [bench.contender(), bench.contender()];
      await writer.queue({ claim: exclusive });
      await later.queue({ claim: shared });
      await writer.end();
      await later.acquireInTurn();
    },
  ),

  readersHaveLeasesOfTheirOwn: promise(
    'a reader that died keeps a writer out for its own lease only',
    async (bench) => {
      const [dead, alive, writer] = [bench.contender(), bench.contender(), bench.contender()];
      await alive.acquire({ claim: shared });
      await dead.acquire({ claim: shared, leaseMs: bench.shortLeaseMs });
      await writer.queue({ claim: exclusive });
      await bench.eventually('the lease of the dead one ends', async () => !(await dead.isHolder()));
      assert.equal((await dead.renew()).kind === 'lost' || (await dead.end()) !== 'unknown', true);
      assert.equal((await alive.renew()).kind, 'renewed');
      await alive.end();
      await writer.acquireInTurn();
    },
  ),

  deadReadersDoNotRenewEachOther: promise(
    'a renewal of one reader does not keep another alive',
    async (bench) => {
      const [dead, alive] = [bench.contender(), bench.contender()];
      await dead.acquire({ claim: shared, leaseMs: bench.shortLeaseMs });
      await alive.acquire({ claim: shared });
      await bench.eventually('its lease ends', async () => {
        await alive.renew();
        return !(await dead.isHolder());
      });
      assert.ok(await alive.isHolder());
    },
  ),

  readerAsksAgain: promise('a reader that asks again is answered with the same tokens', async (bench) => {
    const [one, two] = [bench.contender(), bench.contender()];
    const first = await one.acquire({ claim: shared, tokens: 4 });
    await two.acquire({ claim: shared, tokens: 4 });
    const again = await one.acquire({ tokens: 4 });
    assert.deepEqual([again.token, again.lastToken], [first.token, first.lastToken]);
    assert.equal(await one.end(), 'released');
    assert.equal(await one.end(), 'not held');
    assert.ok(await two.isHolder());
  }),

  readersTokens: promise(
    'a token of a reader is larger than those of writers before it, and smaller than those after',
    async (bench) => {
      const before = bench.contender();
      const { lastToken } = await before.acquire({ claim: exclusive, tokens: 3 });
      await before.end();
      const [one, two] = await readers(bench, 2);
      await one?.end();
      await two?.end();
      const after = await bench.contender().acquire({ claim: exclusive });
      for (const reader of [one, two]) {
        assert.ok(lastToken < (reader?.grant.token ?? 0));
        assert.ok((reader?.grant.lastToken ?? 0) < after.token);
      }
    },
  ),

  readerUnderAnotherGrant: promise(
    'a reader whose place was forgotten and granted anew is told that the first grant is lost',
    async (bench) => {
      const reader = bench.contender();
      const first = await reader.acquire({ claim: shared });
      await reader.end();
      const second = await reader.acquire({ claim: shared });
      assert.equal((await reader.renew({ grant: first })).kind, 'lost');
      assert.equal((await reader.renew({ grant: second })).kind, 'renewed');
    },
  ),

  downgrade: promise('who holds alone may step down, and readers in line enter at once', async (bench) => {
    for (const claim of ALONE) {
      const [holder, reader, writer] = [bench.contender(), bench.contender(), bench.contender()];
      await holder.acquire({ claim });
      await reader.queue({ claim: shared });
      await writer.queue({ claim: exclusive });
      assert.equal((await holder.renew({ claim: shared })).kind, 'renewed');
      assert.equal((await holder.renew({ claim: shared })).kind, 'renewed', 'it may be repeated');
      await reader.acquireInTurn();
      assert.ok(await holder.isHolder());
      assert.equal((await writer.ask({ waitMs: Infinity })).kind, 'queued');
      assert.equal(await holder.end(), 'released');
      await reader.end();
      await writer.acquireInTurn();
      await writer.end();
    }
  }),

  renewalAcrossDowngrade: promise(
    'a renewal that was sent before its owner stepped down neither undoes that nor is a loss',
    async (bench) => {
      for (const claim of ALONE) {
        const [holder, reader] = [bench.contender(), bench.contender()];
        await holder.acquire({ claim });
        await holder.renew({ claim: shared });
        await reader.acquire({ claim: shared });
        assert.equal((await holder.renew({ claim })).kind, 'renewed');
        assert.equal((await bench.client().inspect(bench.key))?.mode, 'shared');
        assert.equal((await holder.renew({ claim: shared })).kind, 'renewed');
        await holder.end();
        await reader.end();
      }
    },
  ),

  downgradeOfTheLost: promise(
    'who has lost its lock does not get it back by stepping down',
    async (bench) => {
      const [holder, next] = [bench.contender(), bench.contender()];
      await holder.acquire({ claim: exclusive });
      await next.store.forceRelease(bench.key);
      assert.equal((await holder.renew({ claim: shared })).kind, 'lost');
      await next.acquire({ claim: exclusive });
      assert.equal((await holder.renew({ claim: shared })).kind, 'lost');
    },
  ),

  endOfAnUnansweredDowngrade: promise(
    'an end as a reader also ends a lock that had not stepped down yet',
    async (bench) => {
      const [holder, next] = [bench.contender(), bench.contender()];
      const { key, owner, store } = holder;
      await holder.acquire({ claim: exclusive });
      assert.equal(await store.release({ key, owner, claim: shared, leaseMs: 30_000 }), 'released');
      await next.acquire({ claim: exclusive });
    },
  ),

  forceTakesAllReaders: promise('a forced release takes the lock from all readers', async (bench) => {
    const [one, two] = await readers(bench, 2);
    assert.equal(await bench.client().forceRelease(bench.key), 'released');
    assert.equal((await one?.renew())?.kind, 'lost');
    assert.equal((await two?.renew())?.kind, 'lost');
    await bench.contender().acquire({ claim: exclusive });
  }),
} satisfies ContractGroup;
