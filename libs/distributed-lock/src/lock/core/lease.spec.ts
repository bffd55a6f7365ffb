import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { readClocks, systemChance } from '../../common/clock.js';
import { ManualClock } from '../../testing/manual-clock.js';
import { LOCK, type Renewal, type RenewalReply } from '../../port/lock-store.js';
import { leaseMargin, leaseValidity } from '../../port/timing.js';
import { Lease, RENEWALS_PER_LEASE } from './lease.js';
import type { Owner } from './owner.js';

const LEASE_MS = 5000;

const GRANT = { kind: 'granted', token: 1, lastToken: 1, waiting: 0, confirmed: true } as const;

/** A lease of an owner that is held. Requests for another length go to `send`. */
function leaseOf(
  clock: ManualClock,
  validUntil: number,
  send: (renewal: Renewal) => Promise<RenewalReply> = () => new Promise(() => undefined),
): Lease {
  const ignore = (): void => undefined;
  const watchdog = {
    renew: async ([lease]: readonly Lease[], leaseMs?: number) => {
      const { renewal, onReply } = (lease as Lease).startRenewal(leaseMs);
      const reply = await send(renewal);
      onReply(reply);
      return [reply];
    },
  };
  const owner = {
    key: 'goods:42',
    id: 'me:1',
    claim: LOCK,
    terms: { claim: LOCK, leaseMs: LEASE_MS, watched: false },
    isHeld: true,
    get now() {
      return clock.now();
    },
    readClocks: () => readClocks(clock),
    acquireLoop: { asked: { wallClockOffset: 0 } },
    onConfirmed: ignore,
    onUnanswered: ignore,
    contention: { onWaitingCount: ignore },
    onLost: ignore,
    runtime: { clock, chance: systemChance, emit: ignore, watchdog },
  } as unknown as Owner;
  return new Lease(owner, { ...GRANT, validUntil }, clock.now());
}

function renewed(validUntil: number): RenewalReply {
  return { kind: 'renewed', validUntil, waiting: 0 };
}

interface Sent {
  readonly sentAt: number;
  readonly leaseMs: number;
  readonly answer: (reply: RenewalReply) => void;
}

type Step =
  | { readonly do: 'renew' }
  | { readonly do: 'reset'; readonly ms: number }
  | { readonly do: 'execute' | 'lose' }
  | { readonly do: 'answer'; readonly which: number }
  | { readonly do: 'grant again' }
  | { readonly do: 'pass'; readonly ms: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.constant({ do: 'renew' as const }),
  fc.record({ do: fc.constant('reset' as const), ms: fc.constantFrom(300, 1000, 5000, 20_000) }),
  { weight: 3, arbitrary: fc.constant({ do: 'execute' as const }) },
  fc.constant({ do: 'lose' as const }),
  { weight: 3, arbitrary: fc.record({ do: fc.constant('answer' as const), which: fc.nat({ max: 3 }) }) },
  fc.constant({ do: 'grant again' as const }),
  { weight: 2, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.nat({ max: 800 }) }) },
);

/** A store that executes what is sent in order, and a network that loses both and lets answers overtake each other. */
class Stage {
  private readonly clock = new ManualClock();
  private readonly lease = leaseOf(
    this.clock,
    leaseValidity(0, LEASE_MS),
    (renewal) => new Promise((resolve) => this.send(renewal, resolve)),
  );
  /** The end of the lease in the store. */
  private endsAt = LEASE_MS;
  private readonly waiting: Sent[] = [];
  private readonly answers: Sent[] = [];
  get isBelievedTooLong(): boolean {
    return this.lease.measureLeft() > Math.max(0, this.endsAt - this.clock.now());
  }

  async take(step: Step): Promise<void> {
    const now = this.clock.now();
    switch (step.do) {
      case 'renew': {
        const { renewal, onReply } = this.lease.startRenewal();
        return this.send(renewal, onReply);
      }
      case 'reset':
        void this.lease.extend(step.ms);
        return;
      case 'execute': {
        const sent = this.waiting.shift();
        if (!sent || now >= this.endsAt) return;
        this.endsAt = now + sent.leaseMs;
        this.answers.push(sent);
        return;
      }
      case 'lose':
        return void this.waiting.shift();
      case 'answer': {
        const [sent] = this.answers.splice(step.which, 1);
        if (!sent) return;
        sent.answer(renewed(leaseValidity(sent.sentAt, sent.leaseMs)));
        // A reply to `extend` comes through some promises.
        for (let i = 0; i < 10; i++) await Promise.resolve();
        return;
      }
      case 'grant again':
        return this.lease.onGrantedAgain({ ...GRANT, validUntil: leaseValidity(0, LEASE_MS) });
      case 'pass':
        return this.clock.stall(step.ms);
    }
  }

  private send({ leaseMs }: Renewal, answer: (reply: RenewalReply) => void): void {
    this.waiting.push({ leaseMs, answer, sentAt: this.clock.now() });
  }
}

/** The reply to an earlier renewal comes between those to two extensions, the shorter one first. Few random runs meet it. */
const SHORT_THEN_LONG: Step[] = [
  { do: 'renew' },
  { do: 'execute' },
  { do: 'reset', ms: 300 },
  { do: 'reset', ms: 5000 },
  { do: 'grant again' },
  { do: 'execute' },
  { do: 'answer', which: 0 },
];

describe('a lease whose length is set anew', () => {
  it('is believed in for no longer than the store keeps it, whatever is lost and in whatever order answers come', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 30 }), async (steps) => {
        const stage = new Stage();
        for (const each of steps) {
          await stage.take(each);
          expect(stage.isBelievedTooLong).toBe(false);
        }
      }),
      { numRuns: 1500, examples: [[SHORT_THEN_LONG]] },
    );
  });
});

describe('the renewal of a lease', () => {
  it('is due when a third of what an answer has left of it is over, however late the answer', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: LEASE_MS }), fc.boolean(), (leftMs, isRenewed) => {
        const clock = new ManualClock();
        const lease = leaseOf(clock, isRenewed ? 0 : leftMs);
        if (isRenewed) lease.startRenewal().onReply(renewed(leftMs));
        const dueAfterMs = Math.min(LEASE_MS, leftMs + leaseMargin(LEASE_MS)) / RENEWALS_PER_LEASE;
        clock.stall(dueAfterMs * 0.89);
        expect(lease.isRenewalDue()).toBe(false);
        clock.stall(dueAfterMs * 0.12);
        expect(lease.isRenewalDue()).toBe(true);
      }),
    );
  });
});

describe('the renewal of a fixed lease', () => {
  it('asks for all of the time that is left of it in the store, which is longer than its holder may believe in it', () => {
    const clock = new ManualClock();
    const lease = leaseOf(clock, leaseValidity(0, LEASE_MS));
    lease.start();
    clock.stall(1000);
    expect(lease.startRenewal().renewal.leaseMs).toBe(LEASE_MS - 1000);
  });
});

describe('a lease whose machine was suspended', () => {
  it('is believed in for no longer than before, if the answer of the store leaves less than that', () => {
    const clock = new ManualClock();
    const lease = leaseOf(clock, LEASE_MS);
    clock.suspend(3000);
    expect(lease.measureValidity()).toBe(2000);
    lease.startRenewal().onReply(renewed(1000));
    expect(lease.measureValidity()).toBe(2000);
    expect(lease.state()).toBe('valid');
  });
});
