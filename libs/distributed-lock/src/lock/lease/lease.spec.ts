import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { systemChance } from '../../time/chance.js';
import { ManualClock } from '../../testing/manual-clock.js';
import { leaseMargin } from '../../port/lease-validity.js';
import { Lease, RENEWALS_PER_LEASE } from './lease.js';

const LEASE_MS = 5000;

describe('the renewal of a lease', () => {
  it('is due when a third of what an answer has left of it is over, however late the answer', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: LEASE_MS }), fc.boolean(), (leftMs, isGrantedAgain) => {
        const clock = new ManualClock();
        const grant = { kind: 'granted', token: 1, lastToken: 1, waiting: 0, confirmed: true } as const;
        const validUntil = isGrantedAgain ? 0 : leftMs;
        const lease = new Lease({ ...grant, validUntil }, LEASE_MS, clock, systemChance, 0);
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
