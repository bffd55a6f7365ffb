import { describe, expect, it } from '@jest/globals';
import type { Holder } from './document.js';
import { LaneOwners } from './lane-owners.js';

const NOW = 1000;

const LEASES = {
  start: () => undefined,
  end: () => undefined,
  onGranted: () => Infinity,
};

function holder(other: Partial<Holder>): Holder {
  const claim = { kind: 'exclusive' } as const;
  return { owner: 'me:1', claim, token: 7, lastToken: 7, until: NOW + 500, nonce: 'mine', ...other };
}

/** What an owner that waits is told of a document with this holder. */
function toldOf(holding: Holder): readonly string[] {
  const owners = new LaneOwners('k', { nonce: 'mine' }, LEASES);
  owners.onQueued('me:1', 500, 5000);
  const reading = {
    version: 1,
    order: 1,
    document: { holders: [holding], queue: [] },
    notes: [],
    notesRead: 0,
    lastToken: 7,
    now: NOW,
    ticks: 7,
    nextTicket: 8,
  };
  return owners.compare({ reading, sentAt: 0, receivedAt: 0 }, [], () => NOW).map(({ kind }) => kind);
}

describe('an owner that waits, and a document that names it as the holder', () => {
  it('has the lock', () => {
    expect(toldOf(holder({}))).toEqual(['granted']);
  });

  it('does not have the lock by a grant without the secret of its client', () => {
    expect(toldOf(holder({ nonce: 'another' }))).toEqual([]);
  });

  it('does not have the lock by a grant that is over, such as one under an earlier session of its client', () => {
    expect(toldOf(holder({ until: -Infinity }))).toEqual([]);
    expect(toldOf(holder({ until: NOW }))).toEqual([]);
  });
});
