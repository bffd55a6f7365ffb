import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { systemChance } from '../../time/chance.js';
import { ManualClock } from '../../testing/manual-clock.js';
import { leaseMargin, leaseValidity } from '../../port/lease-validity.js';
import { Lease, RENEWALS_PER_LEASE, type AskedRenewal } from './lease.js';

const LEASE_MS = 5000;

interface Sent {
  readonly asked: AskedRenewal;
  readonly sentAt: number;
  readonly leaseMs: number;
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
  private readonly lease: Lease;
  /** The end of the lease in the store. */
  private endsAt = LEASE_MS;
  private readonly waiting: Sent[] = [];
  private readonly answers: Sent[] = [];
  private leaseMs = LEASE_MS;

  constructor() {
    const validUntil = leaseValidity(0, LEASE_MS);
    const grant = {
      kind: 'granted',
      token: 1,
      lastToken: 1,
      validUntil,
      waiting: 0,
      confirmed: true,
    } as const;
    this.lease = new Lease(grant, this.clock.now(), LEASE_MS, this.clock, systemChance, 0);
  }

  get isBelievedTooLong(): boolean {
    return this.lease.measureLeft() > Math.max(0, this.endsAt - this.clock.now());
  }

  take(step: Step): void {
    const now = this.clock.now();
    switch (step.do) {
      case 'renew':
        return this.send();
      case 'reset':
        this.lease.startReset(step.ms);
        this.leaseMs = step.ms;
        return this.send();
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
        this.lease.onReply();
        return this.lease.onRenewed(leaseValidity(sent.sentAt, sent.leaseMs), sent.asked);
      }
      case 'grant again':
        this.lease.onProlonged(leaseValidity(0, LEASE_MS));
        return this.lease.onGrantedAgain(leaseValidity(0, LEASE_MS));
      case 'pass':
        return this.clock.stall(step.ms);
    }
  }

  private send(): void {
    const asked = this.lease.startRenewal(this.leaseMs);
    this.waiting.push({ asked, sentAt: this.clock.now(), leaseMs: this.leaseMs });
  }
}

describe('a lease whose length is set anew', () => {
  it('is believed in for no longer than the store keeps it, whatever is lost and in whatever order answers come', () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 3, maxLength: 30 }), (steps) => {
        const stage = new Stage();
        for (const each of steps) {
          stage.take(each);
          expect(stage.isBelievedTooLong).toBe(false);
        }
      }),
      { numRuns: 1500 },
    );
  });
});

describe('the renewal of a lease', () => {
  it('is due when a third of what an answer has left of it is over, however late the answer', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: LEASE_MS }), fc.boolean(), (leftMs, isGrantedAgain) => {
        const clock = new ManualClock();
        const grant = { kind: 'granted', token: 1, lastToken: 1, waiting: 0, confirmed: true } as const;
        const validUntil = isGrantedAgain ? 0 : leftMs;
        const lease = new Lease({ ...grant, validUntil }, clock.now(), LEASE_MS, clock, systemChance, 0);
        if (isGrantedAgain) lease.onGrantedAgain(leftMs);
        const dueAfterMs = Math.min(LEASE_MS, leftMs + leaseMargin(LEASE_MS)) / RENEWALS_PER_LEASE;
        clock.stall(dueAfterMs * 0.89);
        expect(lease.isRenewalDue()).toBe(false);
        clock.stall(dueAfterMs * 0.12);
        expect(lease.isRenewalDue()).toBe(true);
      }),
    );
  });
});

describe('a lease whose machine was suspended', () => {
  it('is believed in for no longer than before, if the answer of the store leaves less than that', () => {
    const clock = new ManualClock();
    const grant = { kind: 'granted', token: 1, lastToken: 1, waiting: 0, confirmed: true } as const;
    const lease = new Lease({ ...grant, validUntil: LEASE_MS }, 0, LEASE_MS, clock, systemChance, 0);
    clock.suspend(3000);
    expect(lease.measureValidity()).toBe(2000);
    const asked = lease.startRenewal(LEASE_MS);
    lease.onReply();
    lease.onRenewed(1000, asked);
    expect(lease.measureValidity()).toBe(2000);
    expect(lease.state()).toBe('valid');
  });
});
