import { describe, expect, it } from '@jest/globals';
import { ServerClock } from '../connection/server-clock.js';
import { LOCK } from '../port/lock-store.js';
import { ManualClock } from '../testing/manual-clock.js';
import { FREE, type Holder, type TimedReading } from './document.js';
import { LaneOwners } from './lane-owners.js';

const NOW = 1000;
const OWNER = 'me:1';
const NONCE = 'own nonce';
const GRANT: Holder = { owner: OWNER, claim: LOCK, token: 7, lastToken: 7, until: NOW + 1000, nonce: NONCE };

/** A client with one waiter, and what it tells this waiter of a document with the holder. */
function notificationsOf(holder: Holder): readonly unknown[] {
  const clock = new ManualClock();
  const client = {
    clientId: 'me',
    minToken: 0,
    nonce: NONCE,
    initialLeaseMs: 1000,
    areRenewalsWritten: true,
  };
  const owners = new LaneOwners('k', { client, serverClock: new ServerClock(clock), leases: undefined });
  owners.onQueued(OWNER, 30_000);
  const reading: TimedReading['reading'] = {
    version: 1,
    order: 1,
    document: { ...FREE, holders: [holder] },
    notes: [],
    notesRead: 0,
    lastToken: 7,
    now: NOW,
    ticks: NOW,
    nextTicket: NOW,
  };
  return owners.compare({ reading, sentAt: -Infinity, receivedAt: 0 }, [], () => NOW);
}

describe('a grant that another client has written for a waiter', () => {
  it('is passed on with its tokens, to be confirmed or not', () => {
    expect(notificationsOf(GRANT)).toMatchObject([
      { kind: 'granted', owner: OWNER, token: 7, confirmed: true },
    ]);
    const unconfirmed = { ...GRANT, isUnconfirmed: true };
    expect(notificationsOf(unconfirmed)).toMatchObject([{ kind: 'granted', confirmed: false }]);
  });

  it('counts only with the nonce of this client: anybody may write one without it', () => {
    const { nonce: _, ...forged } = GRANT;
    expect(notificationsOf(forged)).toEqual([]);
    expect(notificationsOf({ ...GRANT, nonce: 'another' })).toEqual([]);
  });

  it('counts only while its lease lasts: another owner may hold the lock by now', () => {
    expect(notificationsOf({ ...GRANT, until: NOW })).toEqual([]);
    expect(notificationsOf({ ...GRANT, until: -Infinity })).toEqual([]);
  });
});
