import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { leaseValidity } from '../port/timing.js';
import type { LockStore, Renewal, RenewalReply } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import { ManualClock } from '../testing/manual-clock.js';
import { NodeOwner } from './node-owner.js';
import { QuorumNode } from './context.js';

const FIRST_MS = 5000;
const OWNER = { key: 'goods:1', owner: 'api:1', claim: { kind: 'lock' }, token: 1, lastToken: 1 } as const;

interface Sent {
  readonly leaseMs: number;
  readonly at: number;
  readonly answer: (reply: RenewalReply) => void;
}

/** A node that executes renewals in the order in which they were sent. Its answers come in any order. */
class Node {
  keepsUntil: number;
  readonly sent: Sent[] = [];
  readonly answers: (() => void)[] = [];

  constructor(private readonly clock: ManualClock) {
    this.keepsUntil = clock.now() + FIRST_MS;
  }

  readonly store = {
    acquire: () => {
      const validUntil = leaseValidity(this.clock.now(), FIRST_MS);
      return Promise.resolve({ kind: 'granted', ...OWNER, validUntil, waiting: 0, confirmed: true });
    },
    renew: ([{ leaseMs }]: readonly [Renewal]) =>
      new Promise((resolve) =>
        this.sent.push({ leaseMs, at: this.clock.now(), answer: (it) => resolve([it]) }),
      ),
  } as unknown as LockStore;

  executeNext(): void {
    const renewal = this.sent.shift();
    if (!renewal) return;
    this.keepsUntil = this.clock.now() + renewal.leaseMs;
    const validUntil = leaseValidity(renewal.at, renewal.leaseMs);
    this.answers.push(() => renewal.answer({ kind: 'renewed', validUntil, waiting: 0 }));
  }

  answer(which: number): void {
    this.answers.splice(which % this.answers.length, 1)[0]?.();
  }
}

const LENGTHS = [1000, FIRST_MS, 20_000];
const nextTurn = () => new Promise(setImmediate);

describe('the node lease of a quorum', () => {
  it('is believed in for no longer than the node keeps it, in whatever order its renewals are answered', async () => {
    const renewals = fc.array(fc.constantFrom(...LENGTHS), { minLength: 1, maxLength: 4 });
    const answers = fc.array(fc.nat({ max: 3 }), { minLength: 4, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(renewals, answers, async (lengths, order) => {
        const clock = new ManualClock();
        const node = new Node(clock);
        const owner = new NodeOwner(new QuorumNode(node.store, 1, () => undefined), clock, () => 'api:1');
        await owner.acquire({ ...OWNER, leaseMs: FIRST_MS, mayWait: false, ticket: 0, tokens: 1 });
        const replies = lengths.map((leaseMs) => owner.renew({ ...OWNER, leaseMs }));
        while (node.sent.length > 0) node.executeNext();
        for (const which of order) node.answer(which);
        await Promise.all(replies);
        await nextTurn();
        expect(owner.lease?.validUntil).toBeLessThan(node.keepsUntil);
      }),
    );
  });

  it('is prolonged by the answer to the latest renewal', async () => {
    const clock = new ManualClock();
    const node = new Node(clock);
    const owner = new NodeOwner(new QuorumNode(node.store, 1, () => undefined), clock, () => 'api:1');
    await owner.acquire({ ...OWNER, leaseMs: FIRST_MS, mayWait: false, ticket: 0, tokens: 1 });
    const renewed = owner.renew({ ...OWNER, leaseMs: 20_000 });
    node.executeNext();
    node.answer(0);
    await renewed;
    expect(owner.lease?.validUntil).toBeGreaterThan(clock.now() + 15_000);
  });

  it('is not prolonged by a renewal to which the node has not replied', async () => {
    const clock = new ManualClock();
    const node = new Node(clock);
    const owner = new NodeOwner(new QuorumNode(node.store, 1, () => undefined), clock, () => 'api:1');
    await owner.acquire({ ...OWNER, leaseMs: FIRST_MS, mayWait: false, ticket: 0, tokens: 1 });
    const validUntil = owner.lease?.validUntil;
    await clock.advance(1000);
    const renewed = owner.renew({ ...OWNER, leaseMs: 20_000 });
    const error = new LockStoreError('nothing came back', OWNER.key, 'unknown');
    node.sent.shift()?.answer({ kind: 'unknown', error });
    await expect(renewed).rejects.toBe(error);
    expect(owner.lease?.validUntil).toBe(validUntil);
  });
});
