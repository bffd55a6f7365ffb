import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Notification } from '../port/lock-store.js';
import { ManualClock } from '../testing/manual-clock.js';
import { SessionLeases } from './leases.js';

const SESSION_MS = 12_000;
const LEASE = { key: 'k', owner: 'me:1', token: 7, lastToken: 9, leaseMs: 4 * SESSION_MS };

describe('a lease that is longer than the session', () => {
  let clock: ManualClock;
  let leases: SessionLeases;
  let sessionUntil: number;
  let holder: number;
  let told: Notification[];
  beforeEach(() => {
    clock = new ManualClock();
    sessionUntil = SESSION_MS;
    holder = LEASE.token;
    told = [];
    const client = {
      clientId: 'me',
      commandTimeoutMs: 500,
      end: () => undefined,
      clock,
      watchdogTimeoutMs: SESSION_MS,
      holds: (_key: string, _owner: string, token: number) => token === holder,
      notify: (notification: Notification) => void told.push(notification),
    };
    leases = new SessionLeases(client, () => sessionUntil);
    leases.onHeld({ ...LEASE, sentAt: clock.now() });
  });

  const ends = () => told.map((it) => (it.kind === 'granted' ? it.validUntil : it.kind));
  /** The session is kept alive all the time. */
  async function live(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 1000) {
      sessionUntil = clock.now() + SESSION_MS;
      await clock.advance(1000);
    }
  }

  it('is granted again for as long as the session is certain, until its own end and no longer', async () => {
    await live(5 * SESSION_MS);
    expect(told[0]).toMatchObject({
      kind: 'granted',
      owner: 'me:1',
      token: 7,
      lastToken: 9,
      confirmed: true,
    });
    expect(ends()).toEqual(ends().toSorted((a, b) => Number(a) - Number(b)));
    expect(ends().at(-1)).toBe(4 * SESSION_MS - 4 * SESSION_MS * 0.01 - 20);
    expect(clock.pendingTimers).toBe(0);
  });

  it('is not granted again while the session is in doubt', async () => {
    await live(SESSION_MS);
    const before = told.length;
    await clock.advance(SESSION_MS);
    expect(told.length).toBe(before);
  });

  it('is not granted again once its owner holds under another token, or has ended', async () => {
    holder = 8;
    await live(SESSION_MS);
    expect(told).toEqual([]);
    holder = LEASE.token;
    leases.onHeld({ ...LEASE, sentAt: clock.now() });
    leases.end('me:1');
    await live(SESSION_MS);
    expect([told, clock.pendingTimers]).toEqual([[], 0]);
  });
});
