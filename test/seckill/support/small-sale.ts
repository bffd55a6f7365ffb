import { expect } from '@jest/globals';
import type { Ended } from './run-program.js';

/** Options of a demo that is soon over. */
export const SMALL = ['--stock', '30', '--buyers', '120'];

export function expectAllSold({ status, stdout, stderr }: Ended): void {
  expect(stderr).toBe('');
  expect(stdout).toMatch(/sold +\| +30 \|[^]*failed +\| +0 \|[^]*oversold +\| +0 \|/);
  expect(stdout).toContain('Proved by the database: all sold, none oversold, none lost.');
  expect(status).toBe(0);
}

/**
 * The lease of the holder that was killed was kept, and was the only thing that was waited for.
 *
 * @param least of what was left of the lease at most, how much was certainly left
 */
export function expectKept({ stdout }: Ended, least = 1): void {
  expect(stdout).toMatch(/kill -9 instance \d \(process \d+\), which holds the lock/);
  const [, leaseLeftMs] = /(\d+) ms left/.exec(stdout)!;
  const [, afterMs] = /holds the lock (\d+) ms later/.exec(stdout)!;
  expect(Number(leaseLeftMs)).toBeGreaterThan(0);
  expect(Number(afterMs)).toBeGreaterThanOrEqual(least * Number(leaseLeftMs) - 20);
}
