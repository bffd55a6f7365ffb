import { describe, expect, it } from '@jest/globals';
import { ManualClock } from 'nestjs-distributed-lock/testing';
import { SHARED } from '../../libs/distributed-lock/src/port/claim.js';
import type { Grant } from '../../libs/distributed-lock/src/port/lock-store.js';
import { COMMAND_TIMEOUT_MS, FaultyServer } from '../support/faulty-register.js';
import { KEY, StoreClient } from '../support/store-client.js';

class Stage {
  readonly clock = new ManualClock();
  readonly server = new FaultyServer(this.clock);
  readonly one = new StoreClient(this);
  readonly two = new StoreClient(this);
  readonly three = new StoreClient(this);

  async pass(ms: number): Promise<void> {
    await this.clock.advance(ms);
    await this.clock.settle();
  }

  /** The calls of a client for a step. */
  async callsOf(client: StoreClient, step: () => unknown): Promise<number> {
    const before = client.calls;
    step();
    await this.pass(0);
    return client.calls - before;
  }
}

describe('the steps of one client on one key', () => {
  it('an uncontended lock costs one write to acquire and one to release', async () => {
    const stage = new Stage();
    const { one } = stage;
    expect(await stage.callsOf(one, () => one.acquire(1))).toBe(1);
    expect(await stage.callsOf(one, () => one.release(1))).toBe(1);
  });

  it('a release and the next acquire of the same client are one write', async () => {
    const stage = new Stage();
    const { one } = stage;
    const grant = one.acquire(1);
    await stage.pass(0);
    one.fates = [{ repliedAfterMs: 5 }];
    one.renew(1, grant.value as Grant);
    const before = one.calls;
    const [released, acquired] = [one.release(1), one.acquire(2)];
    await stage.pass(5);
    expect([released.value, acquired.value.kind, one.calls - before]).toEqual(['released', 'granted', 1]);
  });

  it('steps that come while a write is under way are applied in order and written together', async () => {
    const stage = new Stage();
    const { one } = stage;
    one.fates = [{ repliedAfterMs: 5 }];
    const first = one.acquire(1, { claim: SHARED });
    const rest = [2, 3, 4, 5].map((number) => one.acquire(number, { claim: SHARED }));
    await stage.pass(5);
    const tokens = [first, ...rest].map(({ value }) => (value as Grant).token);
    expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));
    expect(new Set(tokens).size).toBe(5);
    // The first acquire, the reading that finds readers inside, and one write for all others.
    expect(one.calls).toBe(3);
  });

  it('a swap that another client has overtaken is made again on the document as it is now, without a reading', async () => {
    const stage = new Stage();
    const { one } = stage;
    one.acquire(1);
    await stage.pass(0);
    one.fates = [{ isOvertaken: true }];
    let released: ReturnType<StoreClient['release']> | undefined;
    expect(await stage.callsOf(one, () => (released = one.release(1)))).toBe(2);
    expect(released?.value).toBe('released');
  });

  it('after as long as one command may take, a step that is always overtaken fails and says how often', async () => {
    const stage = new Stage();
    const { one } = stage;
    const grant = one.acquire(1);
    await stage.pass(0);
    one.always = { isOvertaken: true };
    const renewed = one.renew(1, grant.value as Grant);
    await stage.pass(5 * COMMAND_TIMEOUT_MS);
    const [reply] = renewed.value;
    expect(reply).toMatchObject({ kind: 'unknown', error: { reason: 'unready', key: KEY } });
    expect(reply).toHaveProperty(
      'error.message',
      expect.stringMatching(/^Could not write the lock "goods": other clients .*, \d+ times in \d+ ms\./),
    );
  });

  it.each([0, 10_000])(
    'a step that is always overtaken is answered soon after one command, however slow the server is; waitMs %i',
    async (waitMs) => {
      const stage = new Stage();
      const { one, two } = stage;
      one.acquire(1, { leaseMs: 50 });
      await stage.pass(100);
      two.always = { isOvertaken: true, executedAfterMs: [40], repliedAfterMs: 40 };
      const asked = two.acquire(1, { waitMs });
      await stage.pass(3 * COMMAND_TIMEOUT_MS);
      expect(asked.state).not.toBe('pending');
    },
  );

  it('after two lost swaps an owner that waits leaves a note, so that whoever writes next counts it', async () => {
    const stage = new Stage();
    const { one, two, three } = stage;
    const grant = one.acquire(1);
    await stage.pass(0);
    two.wait(1);
    three.acquire(1, { leaseMs: 1 });
    await stage.pass(0);
    two.always = { isOvertaken: true };
    two.release(1, { flush: undefined });
    two.wait(2);
    await stage.pass(3);
    const seen = await three.store.inspect(KEY);
    expect(grant.state).toBe('resolved');
    expect(seen?.pending).toContain(two.owner(2));
  });

  it('an unanswered step fails those that wait for it, and the next one works', async () => {
    const stage = new Stage();
    const { one } = stage;
    one.fates = [{ executedAfterMs: [], repliedAfterMs: 'never' }];
    const [lost, behind] = [one.acquire(1), one.acquire(2)];
    await stage.pass(COMMAND_TIMEOUT_MS);
    expect([lost.error, behind.error]).toMatchObject([{ reason: 'unknown' }, { reason: 'unknown' }]);
    const next = one.acquire(3);
    await stage.pass(0);
    expect(next.value.kind).toBe('granted');
  });

  it('an acquire that has left its note and cannot be written is unknown to its caller, who must release it', async () => {
    const stage = new Stage();
    const { one, two } = stage;
    one.acquire(1, { leaseMs: 50 });
    await stage.pass(100);
    two.fates = [{}];
    two.always = { isOvertaken: true };
    const waiting = two.wait(1);
    await stage.pass(5 * COMMAND_TIMEOUT_MS);
    expect(waiting.error).toMatchObject({ reason: 'unknown', cause: { reason: 'unready' }, key: KEY });
  });

  it('a step that the rules refuse fails alone', async () => {
    const stage = new Stage();
    const { one } = stage;
    one.acquire(1, { claim: SHARED });
    await stage.pass(0);
    const claim = { kind: 'permits', permits: 2, weight: 1 } as const;
    const [refused, granted] = [one.acquire(2, { claim }), one.acquire(3, { claim: SHARED })];
    await stage.pass(0);
    expect(refused.error).toMatchObject({ reason: 'refused' });
    expect(granted.value.kind).toBe('granted');
  });
});

describe('what a client answers without a write', () => {
  it('comes from a reading that was made for it, though the last document that it has seen says otherwise', async () => {
    const stage = new Stage();
    const { one, two } = stage;
    one.acquire(1);
    await stage.pass(0);
    two.wait(1);
    await stage.pass(0);
    two.pushesAfterMs = undefined;
    one.release(1);
    await stage.pass(0);
    const seen = await two.store.inspect(KEY);
    expect(seen).toMatchObject({ holders: [`${two.store.clientId}:1`], pending: [] });
  });

  it('a renewal of a holder that was forced out is answered "lost", though no notification came', async () => {
    const stage = new Stage();
    const { one, two } = stage;
    one.pushesAfterMs = undefined;
    const grant = one.acquire(1);
    await stage.pass(0);
    await two.store.forceRelease(KEY);
    const renewed = one.renew(1, grant.value as Grant);
    await stage.pass(0);
    expect(renewed.value).toEqual([{ kind: 'lost' }]);
  });

  it('a renewal after the end of the lease is answered "lost", though nobody has written since', async () => {
    const stage = new Stage();
    const { one } = stage;
    const grant = one.acquire(1, { leaseMs: 100 });
    await stage.pass(100);
    const renewed = one.renew(1, grant.value as Grant);
    await stage.pass(0);
    expect(renewed.value).toEqual([{ kind: 'lost' }]);
  });
});

describe('notifications', () => {
  it('that overtakes the reply to its acquire grants right after the reply', async () => {
    const stage = new Stage();
    const { one, two } = stage;
    one.acquire(1);
    await stage.pass(0);
    two.fates = [{ repliedAfterMs: 50 }];
    const waits = two.wait(1);
    await stage.pass(10);
    one.release(1);
    await stage.pass(10);
    expect([waits.state, two.told(1)]).toEqual(['pending', []]);
    await stage.pass(30);
    expect(waits.value.kind).toBe('queued');
    expect(two.told(1)).toEqual(['granted']);
  });

  it('that is older than what the client has seen since is dropped', async () => {
    const stage = new Stage();
    const { one, two } = stage;
    one.acquire(1);
    await stage.pass(0);
    one.pushesAfterMs = 50;
    two.wait(1);
    await stage.pass(0);
    two.release(1);
    await stage.pass(0);
    one.release(1);
    await stage.pass(0);
    const again = one.acquire(2);
    await stage.pass(0);
    expect(again.value.kind).toBe('granted');
    // Tells of the time when the first owner still held.
    await stage.pass(100);
    expect(one.told(2)).toEqual([]);
  });

  it('tells a holder that others wait, and tells a waiter of its grant', async () => {
    const stage = new Stage();
    const { one, two } = stage;
    one.acquire(1);
    await stage.pass(0);
    two.wait(1);
    await stage.pass(0);
    expect(one.told(1)).toEqual(['contended']);
    one.release(1);
    await stage.pass(0);
    expect(two.told(1)).toEqual(['granted']);
    expect(two.notifications[0]).toMatchObject({ confirmed: false });
  });

  it('the first waiter is told when a minimum hold ends', async () => {
    const stage = new Stage();
    const { one, two } = stage;
    one.acquire(1);
    await stage.pass(0);
    two.wait(1);
    await stage.pass(0);
    const holdUntil = stage.clock.now() + 300;
    await one.store.release({ ...one.request(1), holdUntil, flush: 'now' });
    await stage.pass(0);
    expect(two.notifications).toContainEqual(
      expect.objectContaining({ kind: 'recheck', afterMs: expect.closeTo(305, -1) }),
    );
  });
});

describe('late requests', () => {
  it('an acquire is not executed after its not-after', async () => {
    const stage = new Stage();
    const { one, two } = stage;
    one.fates = [{ executedAfterMs: [COMMAND_TIMEOUT_MS + 50], repliedAfterMs: 'never' }];
    one.acquire(1);
    await stage.pass(COMMAND_TIMEOUT_MS + 100);
    expect(await two.store.inspect(KEY)).toBeNull();
  });

  it('a release resolves when no copy of an unanswered acquire can be executed any more', async () => {
    const stage = new Stage();
    const { one, two } = stage;
    one.fates = [{ executedAfterMs: [COMMAND_TIMEOUT_MS - 1], brokenAfterMs: 2 }];
    one.acquire(1);
    await stage.pass(2);
    const released = one.release(1);
    while (released.state === 'pending') await stage.pass(1);
    expect(stage.clock.now()).toBeGreaterThan(COMMAND_TIMEOUT_MS);
    expect(released.value).toBe('released');
    expect(await two.store.inspect(KEY)).toBeNull();
  });

  it('the clock of the server may be set forward: one request is refused, and the next one knows the time', async () => {
    const stage = new Stage();
    const { one } = stage;
    one.acquire(1);
    one.release(1);
    await stage.pass(0);
    stage.server.offsetMs += 3_600_000;
    const refused = one.acquire(2);
    await stage.pass(0);
    expect(refused.error).toMatchObject({ reason: 'unready' });
    const next = one.acquire(3);
    await stage.pass(0);
    expect(next.value.kind).toBe('granted');
  });
});

describe('clients that are gone', () => {
  it('the grant of a client that does not confirm is over after a second, and the next in the queue is granted', async () => {
    const stage = new Stage();
    const { one, two, three } = stage;
    one.acquire(1);
    await stage.pass(0);
    two.wait(1);
    await stage.pass(1);
    three.wait(1);
    await stage.pass(1);
    two.pushesAfterMs = undefined;
    one.release(1);
    await stage.pass(999);
    const early = three.wait(1);
    await stage.pass(0);
    expect(early.value.kind).toBe('queued');
    await stage.pass(1);
    const recheck = three.wait(1);
    await stage.pass(0);
    expect(recheck.value.kind).toBe('granted');
  });

  it('a client that closes leaves the queue', async () => {
    const stage = new Stage();
    const { one, two } = stage;
    one.acquire(1);
    await stage.pass(0);
    two.wait(1);
    await stage.pass(0);
    await two.store.close();
    expect(await one.store.inspect(KEY)).toMatchObject({ pending: [] });
  });
});
