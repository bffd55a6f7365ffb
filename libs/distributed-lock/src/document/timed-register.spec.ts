import { beforeEach, describe, expect, it } from '@jest/globals';
import { follow } from '../../../../test/support/lock-world.js';
import { RELEASE_RETRY_MS } from '../connection/reliable-release.js';
import { MemoryDocuments, MemoryRegister } from '../memory/store.js';
import { LOCK } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { ManualClock } from '../testing/manual-clock.js';
import { DocumentStore } from './store.js';
import type { Reading } from './document.js';
import type { Swap, Take, WriteReply } from './timed-register.js';

const KEY = 'k';
const COMMAND_TIMEOUT_MS = 100;
const RETRY_MS = RELEASE_RETRY_MS.least + RELEASE_RETRY_MS.spread;

/** A register whose replies may get lost. The server executes such a write later, unless it arrives after its deadline. */
class LateRegister extends MemoryRegister {
  override readonly commandTimeoutMs = COMMAND_TIMEOUT_MS as 1;
  override readonly isRemote = true as false;
  lost: { readonly reason: 'unknown' | 'unready'; readonly executedAfterMs: number } | undefined;
  requests = 0;

  constructor(
    documents: MemoryDocuments,
    private readonly time: ManualClock,
  ) {
    super(documents, 'late', time);
  }

  override async take(take: Take): Promise<WriteReply> {
    const deadline = take.deadline();
    const { lost } = this;
    if (!lost) return super.take(take);
    this.time.after(lost.executedAfterMs, () => void (this.time.now() <= deadline && super.take(take)));
    throw new LockStoreError('no reply', KEY, lost.reason);
  }

  override swap(swap: Swap): Promise<WriteReply> {
    this.requests += 1;
    swap.deadline();
    return super.swap(swap);
  }

  override read(name: string): Promise<Reading> {
    this.requests += 1;
    return super.read(name);
  }
}

describe('a release after an acquire without a reply', () => {
  let clock: ManualClock;
  let documents: MemoryDocuments;
  let register: LateRegister;
  let store: DocumentStore;
  const request = { key: KEY, owner: 'late:1', claim: LOCK, leaseMs: 30_000 };

  const acquireWithoutReply = async (): Promise<void> => {
    const acquired = follow(store.acquire({ ...request, mayWait: false, ticket: 0, tokens: 1 }));
    await clock.settle();
    expect(acquired.error).toBeInstanceOf(LockStoreError);
  };

  beforeEach(() => {
    clock = new ManualClock();
    documents = new MemoryDocuments(0);
    register = new LateRegister(documents, clock);
    const context = { clock, keyPrefix: '', watchdogTimeoutMs: 30_000 };
    store = new DocumentStore({ name: 'late', clientId: 'late' }, register, context);
  });

  it('is repeated until the server refuses the acquire, so that no lock stays behind it', async () => {
    register.lost = { reason: 'unknown', executedAfterMs: COMMAND_TIMEOUT_MS / 2 };
    await acquireWithoutReply();
    const released = follow(store.release({ ...request, flush: 'now' }));
    await clock.advance(COMMAND_TIMEOUT_MS / 2);
    expect(documents.read(KEY, clock.now()).document.holders).toMatchObject([{ owner: 'late:1' }]);
    await clock.advance(2 * RETRY_MS);
    expect(documents.read(KEY, clock.now()).document.holders).toEqual([]);
    expect(released.value).toBe('released');
  });

  it('is sent one time if the acquire certainly was not executed', async () => {
    register.lost = { reason: 'unready', executedAfterMs: Infinity };
    await acquireWithoutReply();
    const released = follow(store.release({ ...request, flush: 'now' }));
    await clock.advance(2 * RETRY_MS);
    expect(released.value).toBe('not held');
    expect(register.requests).toBe(1);
  });
});
