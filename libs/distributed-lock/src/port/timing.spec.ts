import { describe, expect, it } from '@jest/globals';
import { leaseMargin, leaseValidity } from './timing.js';

const LEASES = [10, 50, 100, 1000, 30_000, 3_600_000];

describe('validity', () => {
  it.each(LEASES)('of a lease of %i ms ends before the lease does, and not long before', (leaseMs) => {
    const validForMs = leaseValidity(1000, leaseMs) - 1000;
    expect(validForMs).toBeLessThan(leaseMs);
    expect(validForMs).toBeGreaterThanOrEqual(leaseMs * 0.8);
    expect(validForMs).toBe(leaseMs - leaseMargin(leaseMs));
  });

  it('takes more off a longer lease', () => {
    const margins = LEASES.map(leaseMargin);
    expect(margins).toEqual(margins.toSorted((a, b) => a - b));
    expect(new Set(margins).size).toBe(LEASES.length);
  });
});
