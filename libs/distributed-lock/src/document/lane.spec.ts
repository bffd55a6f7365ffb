import { beforeEach, describe, expect, it } from '@jest/globals';
import { follow } from '../../../../test/support/lock-world.js';
import { type AcquireRequest, LOCK, type Notification } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { ManualClock } from '../testing/manual-clock.js';
import { MemoryDocuments, MemoryRegister } from '../memory/store.js';
import { RELEASE_RETRY_MS } from '../connection/reliable-release.js';
import { FREE, type Reading } from './document.js';
import { DocumentStore } from './store.js';
import type { Swap, Take, WriteReply } from './timed-register.js';

const KEY = 'k';
const ROUND_TRIP_MS = 20;
const COMMAND_TIMEOUT_MS = 100;
const PERMITS = { kind: 'permits', permits: 2, weight: 1 } as const;

/** A register at the other end of a network, on which other clients may always be first with a swap. */
class FarRegister extends MemoryRegister {
  override readonly commandTimeoutMs = COMMAND_TIMEOUT_MS as 1;
  override readonly isRemote = true as false;
  areOthersFirst = false;
  roundTripMs = ROUND_TRIP_MS;
  readonly swapsAt: number[] = [];
  reads = 0;
  /** The document that a server still has after it has lost its last writes. */
  restored: Partial<Reading> | undefined;

  constructor(
    documents: MemoryDocuments,
    id: string,
    private readonly time: ManualClock,
  ) {
    super(documents, id, time);
  }

  override take(take: Take): Promise<WriteReply> {
    take.deadline();
    return this.far(() => super.take(take));
  }

  override swap(swap: Swap): Promise<WriteReply> {
    swap.deadline();
    this.swapsAt.push(this.time.now());
    return this.far(async () =>
      this.areOthersFirst ? { isDone: false, reading: await this.read(swap.name) } : super.swap(swap),
    );
  }

  override async read(name: string): Promise<Reading> {
    this.reads += 1;
    return { ...(await super.read(name)), ...this.restored };
  }

  private async far<Reply>(request: () => Promise<Reply>): Promise<Reply> {
    const pause = () => new Promise<void>((resolve) => this.time.after(this.roundTripMs / 2, resolve));
    await pause();
    const reply = await request();
    await pause();
    return reply;
  }
}

describe('a lane whose writes lose to those of other clients', () => {
  let clock: ManualClock;
  let documents: MemoryDocuments;
  let register: FarRegister;
  let far: DocumentStore;
  let near: DocumentStore;
  let notifications: Notification[];

  const request = (
    store: DocumentStore,
    number: number,
    more: Partial<AcquireRequest> = {},
  ): AcquireRequest => {
    const owner = `${store.clientId}:${number}`;
    return { key: KEY, owner, claim: LOCK, leaseMs: 30_000, mayWait: false, ticket: 0, tokens: 1, ...more };
  };
  /** A task that must be written, and that is neither an acquire nor a release. */
  const announce = (holder: string) =>
    follow(far.announceTakeover({ key: KEY, owner: holder, graceMs: 1000, by: 'other' }));

  beforeEach(() => {
    clock = new ManualClock();
    documents = new MemoryDocuments(0);
    const context = { clock, keyPrefix: '', watchdogTimeoutMs: 30_000 };
    register = new FarRegister(documents, 'far', clock);
    far = new DocumentStore({ name: 'far', clientId: 'far' }, register, context);
    near = new DocumentStore(
      { name: 'near', clientId: 'near' },
      new MemoryRegister(documents, 'near', clock),
      context,
    );
    notifications = [];
    far.notifications$.subscribe((it) => notifications.push(it));
  });

  it('hears of the grant to an owner from its note on, while its reply is held up by other tasks', async () => {
    await near.acquire(request(near, 1));
    register.areOthersFirst = true;
    // The two tasks that come meanwhile are one round.
    follow(far.inspect(KEY));
    announce('near:1');
    const asked = follow(far.acquire(request(far, 1, { mayWait: true })));
    // Two swaps are lost, so the owner leaves its note. The next swap is lost, too.
    await clock.advance(4 * ROUND_TRIP_MS - 1);
    await near.release(request(near, 1));
    await clock.settle();
    expect(asked.state).toBe('pending');
    expect(notifications).toMatchObject([{ kind: 'granted', owner: 'far:1' }]);
    register.areOthersFirst = false;
    await clock.advance(1000);
    expect(asked.value).toMatchObject({ kind: 'granted', confirmed: true });
  });

  it('leaves a note for a limited owner after its first lost swap, even if a round trip takes nearly as long as a command may', async () => {
    register.roundTripMs = COMMAND_TIMEOUT_MS - 1;
    const limited = { mayWait: true, maxWaiting: 1 };
    await near.acquire(request(near, 1));
    register.areOthersFirst = true;
    const asked = follow(far.acquire(request(far, 1, limited)));
    await clock.advance(2 * register.roundTripMs);
    expect(documents.read(KEY, clock.now()).notes).toEqual([]);
    await clock.advance(register.roundTripMs);
    expect(asked.value).toMatchObject({ kind: 'queued', waiting: 0 });
    const refused = follow(far.acquire(request(far, 2, limited)));
    await clock.advance(COMMAND_TIMEOUT_MS);
    expect(refused.value).toMatchObject({ kind: 'busy', waiting: 1 });
  });

  it('removes the note of an owner that is refused meanwhile, and forgets the owner', async () => {
    await near.acquire(request(near, 1));
    register.areOthersFirst = true;
    const asked = follow(far.acquire(request(far, 1, { mayWait: true, maxWaiting: 1 })));
    await clock.advance(2 * ROUND_TRIP_MS);
    register.areOthersFirst = false;
    await near.acquire(request(near, 2, { mayWait: true }));
    await clock.advance(2 * ROUND_TRIP_MS);
    expect(asked.value).toMatchObject({ kind: 'busy', waiting: 1 });
    expect(documents.read(KEY, clock.now())).toMatchObject({
      notes: [],
      document: { queue: [{ owner: 'near:2' }] },
    });
    const { reads } = register;
    await Promise.all([far.close(), clock.advance(COMMAND_TIMEOUT_MS)]);
    expect(register.reads).toBe(reads);
  });

  it('fails what it has tried, and goes on with what came meanwhile', async () => {
    await near.acquire(request(near, 1, { claim: PERMITS }));
    register.areOthersFirst = true;
    const askedAt = clock.now();
    const tried = announce('near:1');
    await clock.advance(COMMAND_TIMEOUT_MS);
    const untried = follow(far.acquire(request(far, 1, { claim: PERMITS, mayWait: true })));
    while (tried.state === 'pending') await clock.advance(1);
    expect(tried.error).toBeInstanceOf(LockStoreError);
    expect((tried.error as Error).message).toContain('other clients have written it first');
    // The first reply, the time of a command, and the request that was under way then.
    expect(clock.now() - askedAt).toBeLessThan(COMMAND_TIMEOUT_MS + 3 * ROUND_TRIP_MS);
    register.areOthersFirst = false;
    await clock.advance(3 * ROUND_TRIP_MS);
    expect(untried.value).toMatchObject({ kind: 'granted' });
  });

  it('says of an owner whose note lies beside the document that it may be granted the lock, although every write was lost', async () => {
    await near.acquire(request(near, 1));
    register.areOthersFirst = true;
    follow(far.inspect(KEY));
    announce('near:1');
    const asked = follow(far.acquire(request(far, 1, { mayWait: true })));
    while (asked.state === 'pending') await clock.advance(1);
    expect(documents.read(KEY, clock.now()).notes).toMatchObject([{ owner: 'far:1' }]);
    // The core releases an owner whose request is unknown, and forgets one that certainly was not queued.
    expect(asked.error).toMatchObject({ reason: 'unknown' });
  });

  it('believes what it has read after the server has lost its last writes: its holder has lost the lock', async () => {
    const holding = follow(far.acquire(request(far, 1)));
    await clock.advance(2 * ROUND_TRIP_MS);
    expect(holding.value.kind).toBe('granted');
    register.restored = { order: 0, document: FREE };
    await clock.advance(1);
    documents.listeners.get('far')?.onGap();
    await clock.settle();
    expect(notifications).toContainEqual({ kind: 'lost', owner: 'far:1' });
  });

  it('goes on with a release at once, for as long as it takes', async () => {
    await near.acquire(request(near, 1, { claim: PERMITS }));
    const holding = follow(far.acquire(request(far, 1, { claim: PERMITS })));
    await clock.advance(5 * ROUND_TRIP_MS);
    expect(holding.value.kind).toBe('granted');
    register.areOthersFirst = true;
    const released = follow(far.release({ ...request(far, 1, { claim: PERMITS }), flush: 'now' }));
    await clock.advance(5 * COMMAND_TIMEOUT_MS);
    expect(released.state).toBe('pending');
    register.areOthersFirst = false;
    await clock.advance(3 * ROUND_TRIP_MS);
    expect(released.value).toBe('released');
    const pauses = register.swapsAt.map((at, i) => at - (register.swapsAt[i - 1] ?? at));
    expect(Math.max(...pauses)).toBeLessThan(RELEASE_RETRY_MS.least);
  });
});
