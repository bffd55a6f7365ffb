import { describe, expect, it } from '@jest/globals';
import {
  type AcquireRequest,
  type Claim,
  LOCK,
  placeholderOf,
  type Renewal,
  SHARED,
} from '../port/lock-store.js';
import { FREE, type Holder, type LockDocument, type Reading } from './document.js';
import type { StoredNote, StoredWaiter } from './document.js';
import { KeyState } from './key-state.js';

const NOW = 1000;
const TICKS = 5000;
const NEXT_TICKET = NOW * 1000;
const LEASE = 30_000;
const INITIAL = 1000;
const ME = 'me:1';
const OTHER = 'other:1';
const THIRD = 'third:1';
const permits = (weight: number): Claim => ({ kind: 'permits', permits: 3, weight });

function holder(owner: string, more: Partial<Holder> = {}): Holder {
  return { owner, claim: LOCK, token: 10, lastToken: 10, until: NOW + LEASE, ...more };
}

function waiter(owner: string, more: Partial<StoredWaiter> = {}): StoredWaiter {
  const until = NOW + 3000;
  return {
    owner,
    claim: LOCK,
    leaseMs: LEASE,
    tokens: 1,
    minToken: 0,
    ticket: 7,
    nonce: 'n',
    until,
    ...more,
  };
}

function note(owner: string, more: Partial<StoredNote> = {}): StoredNote {
  const { claim, leaseMs, tokens, minToken, nonce } = waiter(owner);
  const at = NOW * 1000;
  return { owner, claim, leaseMs, tokens, minToken, nonce, ticket: 0, waitMs: 3000, at, ...more };
}

function request(owner: string, more: Partial<AcquireRequest> = {}): AcquireRequest {
  return { key: 'k', owner, claim: LOCK, leaseMs: LEASE, mayWait: false, ticket: 0, tokens: 1, ...more };
}

interface Given {
  readonly document?: Partial<LockDocument>;
  readonly notes?: readonly StoredNote[];
  readonly mayLackNotes?: boolean;
  readonly lastToken?: number;
  readonly minToken?: number;
  readonly initialLeaseMs?: number;
  readonly areRenewalsWritten?: boolean;
}

/** The state as the client `me` sees it. */
function state(given: Given = {}): KeyState {
  const { document = {}, notes = [], mayLackNotes = false } = given;
  const { lastToken = 10, minToken = 0, initialLeaseMs = INITIAL, areRenewalsWritten = true } = given;
  const reading: Reading = {
    version: 1,
    order: 1,
    document: { ...FREE, ...document },
    notes,
    notesRead: notes.length,
    mayLackNotes,
    lastToken,
    now: NOW,
    ticks: TICKS,
    nextTicket: NEXT_TICKET,
  };
  return new KeyState(reading, NOW, {
    clientId: 'me',
    minToken,
    nonce: 'n',
    initialLeaseMs,
    areRenewalsWritten,
  });
}

const held = (...holders: Holder[]): Given => ({ document: { holders } });
const owners = (entries: readonly { readonly owner: string }[]) => entries.map(({ owner }) => owner);

describe('acquiring', () => {
  it('a caller that waits enters the queue, and the holders are told', () => {
    const key = state(held(holder(OTHER)));
    const reply = key.acquire(request(ME, { mayWait: true }));
    expect(reply).toMatchObject({ kind: 'queued', holder: OTHER, recheckAfterMs: 1000 });
    expect(key.document.queue).toMatchObject([{ owner: ME, until: { inMs: 3000 } }]);
    expect(key).toMatchObject({ isChanged: true, failOnUnreadNotes: true, notified: ['other'] });
  });

  it('behind a grant that its owner must confirm first, a waiter rechecks when the time for that is over', () => {
    const granted = { until: Infinity, leaseMs: 0, isUnconfirmed: true };
    const key = state({ ...held(holder(OTHER, granted)), notes: [note(ME)] });
    const reply = key.acquire(request(ME, { mayWait: true }));
    expect(reply).toMatchObject({ kind: 'queued', remainingMs: 1000, recheckAfterMs: 1000 });
  });

  it('a waiter for a permit rechecks when the first lease ends, not the last', () => {
    const [long, short] = [{ claim: permits(1) }, { claim: permits(2), until: NOW + 200 }];
    const key = state(held(holder(OTHER, long), holder(THIRD, short)));
    const reply = key.acquire(request(ME, { claim: permits(1), mayWait: true }));
    expect(reply).toMatchObject({ kind: 'queued', remainingMs: 200, recheckAfterMs: 205 });
  });

  it.each([
    ['a server that ends it', true, 10, 15],
    ['the client of its holder, which needs time to write', false, 10, 505],
    ['the client of its holder', false, 700, 705],
  ])(
    'behind a short lease, a waiter leaves the end to %s',
    (_, areRenewalsWritten, leaseMs, recheckAfterMs) => {
      const key = state({ ...held(holder(OTHER, { until: NOW + leaseMs })), areRenewalsWritten });
      const reply = key.acquire(request(ME, { mayWait: true }));
      expect(reply).toMatchObject({ kind: 'queued', remainingMs: leaseMs, recheckAfterMs });
    },
  );

  it('behind a grant of the same write that its owner must confirm first, a waiter rechecks then, too', () => {
    const key = state({ document: { holders: [holder(ME)], queue: [waiter(OTHER)] }, initialLeaseMs: 0 });
    key.release({ owner: ME });
    const reply = key.acquire(request('me:2', { mayWait: true }));
    expect(reply).toMatchObject({ kind: 'queued', holder: OTHER, recheckAfterMs: 1000 });
  });

  it('a caller with a note beside the document waits already, and writes nothing', () => {
    const key = state({ ...held(holder(OTHER)), notes: [note(ME)] });
    expect(key.acquire(request(ME, { mayWait: true }))).toMatchObject({ kind: 'queued', ticket: NOW * 1000 });
    expect(key.isChanged).toBe(false);
  });
});

describe('notes', () => {
  it('make waiters in the order of their moments', () => {
    const notes = [note(THIRD, { at: NOW * 1000 + 2 }), note(OTHER, { at: NOW * 1000 + 1 })];
    const key = state({ ...held(holder(ME)), notes });
    expect(owners(key.document.queue)).toEqual([OTHER, THIRD]);
  });

  it('with a ticket of an earlier reply keep their place ahead of later ones', () => {
    const queue = [waiter(OTHER, { ticket: 5 })];
    const key = state({ document: { holders: [holder(ME)], queue }, notes: [note(THIRD, { ticket: 3 })] });
    expect(owners(key.document.queue)).toEqual([THIRD, OTHER]);
  });

  it('of a waiter in the queue keep its ticket and prolong its stay', () => {
    const queue = [waiter(OTHER, { ticket: 5 })];
    const key = state({ document: { holders: [holder(ME)], queue }, notes: [note(OTHER, { waitMs: 9000 })] });
    expect(key.document.queue).toMatchObject([{ owner: OTHER, ticket: 5, until: NOW + 9000 }]);
  });

  it('of a holder do not make it wait behind itself', () => {
    const key = state({ ...held(holder(OTHER)), notes: [note(OTHER)] });
    expect(key.document.queue).toEqual([]);
  });

  it('of the other kind of claim do not enter the queue', () => {
    const key = state({ ...held(holder(OTHER)), notes: [note(THIRD, { claim: permits(1) })] });
    expect(key.document.queue).toEqual([]);
  });

  it('of the other kind of claim are deleted when their owner is released, so that they do not enter the queue later', () => {
    const key = state({ ...held(holder(OTHER)), notes: [note(ME, { claim: permits(1) })] });
    expect(key.release({ owner: ME })).toBe(false);
    expect(key.isChanged).toBe(true);
  });

  it('with a limit enter the queue only behind fewer others, and a free key at once', () => {
    const notes = [note(THIRD), note(ME, { maxWaiting: 1 })];
    expect(owners(state({ ...held(holder(OTHER)), notes }).document.queue)).toEqual([THIRD]);
    const queued = state({ ...held(holder(OTHER)), notes: notes.toReversed() }).document.queue;
    expect(owners(queued)).toEqual([ME, THIRD]);
    expect(owners(state({ notes: [note(ME, { maxWaiting: 0 })] }).document.queue)).toEqual([ME]);
  });

  it('with a limit prolong the stay of a waiter, however many others have come', () => {
    const queue = [waiter(THIRD), waiter(ME)];
    const notes = [note(ME, { maxWaiting: 0, waitMs: 9000 })];
    const key = state({ document: { holders: [holder(OTHER)], queue }, notes });
    expect(key.document.queue).toMatchObject([{ owner: THIRD }, { owner: ME, until: NOW + 9000 }]);
  });

  it('of an owner that is refused are deleted, so that it does not enter the queue later', () => {
    const full = { document: { holders: [holder(OTHER)], queue: [waiter(THIRD)] } };
    const limited = request(ME, { mayWait: true, maxWaiting: 1 });
    const key = state({ ...full, notes: [note(ME, { maxWaiting: 1 })] });
    expect(key.acquire(limited)).toMatchObject({ kind: 'busy', waiting: 1 });
    expect(key.isChanged).toBe(true);
    const without = state(full);
    expect(without.acquire(limited)).toMatchObject({ kind: 'busy', waiting: 1 });
    expect(without.isChanged).toBe(false);
  });

  it('decide nothing: without a change the document is not changed', () => {
    expect(state({ ...held(holder(OTHER)), notes: [note(THIRD)] }).isChanged).toBe(false);
  });

  it('are written into the document once there are more than 32', () => {
    const notes = Array.from({ length: 33 }, (_, i) => note(`client${i}:1`));
    expect(state({ ...held(holder(OTHER)), notes }).isChanged).toBe(true);
    expect(state({ ...held(holder(OTHER)), notes: notes.slice(1) }).isChanged).toBe(false);
  });
});

describe('releasing', () => {
  it('a hold that is over is written out of the document, because others may not know that it is over', () => {
    const key = state(held(holder(ME, { until: -Infinity })));
    expect(key.release({ owner: ME })).toBe(false);
    expect([key.isChanged, key.document]).toEqual([true, FREE]);
  });

  it('grants the first waiter of another client for the initial lease, unconfirmed, and tells that client', () => {
    const key = state({ document: { holders: [holder(ME)], queue: [waiter(OTHER)] } });
    expect(key.release({ owner: ME })).toBe(true);
    const until = { inMs: INITIAL };
    expect(key.document).toMatchObject({
      holders: [{ owner: OTHER, until, isUnconfirmed: true }],
      queue: [],
    });
    expect(key.notified).toEqual(['other']);
  });

  it('leaves the rest of a minimum hold without what was of the grant: nobody confirms it', () => {
    const takeover = { graceMs: 500, by: 'other' };
    const mine = holder(ME, { nonce: 'n', isUnconfirmed: true, takeover });
    const releasing = state({ document: { holders: [mine], queue: [waiter(OTHER)] } });
    releasing.release({ owner: ME }, { holdMs: 700 });
    expect(releasing.document.holders).toEqual([holder(placeholderOf(ME), { until: { inMs: 700 } })]);
    // The first waiter rechecks when the minimum hold ends, which may be long before the end of the lease.
    expect(releasing.notified).toEqual(['other']);
    // Its end is that of a minimum hold, not of a grant whose owner was out of reach.
    const over = holder(placeholderOf(ME), { until: NOW - 1 });
    const later = state({ document: { holders: [over], queue: [waiter(ME), waiter(OTHER)] } });
    expect(later.document.queue.map(({ owner }) => owner)).toEqual([ME, OTHER]);
  });

  it('grants a waiter of the same client for its whole lease', () => {
    const key = state({ document: { holders: [holder(ME)], queue: [waiter('me:2')] } });
    key.release({ owner: ME });
    expect(key.document.holders).toMatchObject([{ owner: 'me:2', until: { inMs: LEASE } }]);
    expect(key.document.holders[0]).not.toHaveProperty('isUnconfirmed');
  });
});

describe('leases and tickets that are over', () => {
  const granted = (key: ReturnType<typeof state>) => {
    key.release({ owner: 'nobody:1' });
    return key;
  };

  it('a client that did not confirm its grant in time leaves the queue with all its owners', () => {
    const dead = holder(OTHER, { until: NOW, isUnconfirmed: true });
    const key = state({ document: { holders: [dead], queue: [waiter('other:2'), waiter(THIRD)] } });
    expect(owners(granted(key).document.holders)).toEqual([THIRD]);
  });

  it('a client that did not confirm its grant in time is not granted the lock again by a note that it has left', () => {
    const dead = holder(OTHER, { until: NOW, isUnconfirmed: true });
    const document = { holders: [dead], queue: [waiter(THIRD, { ticket: 9 })] };
    const key = state({ document, notes: [note(OTHER, { ticket: 7 })] });
    expect(owners(granted(key).document.holders)).toEqual([THIRD]);
  });

  it('a client whose confirmed lease is over keeps its place in the queue', () => {
    const slow = holder(OTHER, { until: NOW });
    const key = state({ document: { holders: [slow], queue: [waiter('other:2'), waiter(THIRD)] } });
    expect(owners(granted(key).document.holders)).toEqual(['other:2']);
  });
});

describe('a renewal', () => {
  const renewal = (more: Partial<Renewal> = {}): Renewal => {
    return { key: 'k', owner: ME, claim: LOCK, leaseMs: LEASE, token: 10, lastToken: 10, ...more };
  };

  it.each([
    ['under another grant of its owner', held(holder(ME, { token: 11, lastToken: 11 }))],
    ['of an owner that waits', { document: { holders: [holder(OTHER)], queue: [waiter(ME)] } }],
    ['of a lease that has ended', held(holder(ME, { until: NOW - 1 }))],
  ])('%s is answered by a loss, and changes nothing', (_, given) => {
    const key = state(given);
    expect(key.renew(renewal())).toBe('lost');
    expect(key.isChanged).toBe(false);
  });

  it('begins the lease anew, and no other one', () => {
    const other = holder(OTHER, { claim: SHARED });
    const key = state(held(holder(ME, { claim: SHARED, leaseMs: LEASE }), other));
    expect(key.renew(renewal({ claim: SHARED }))).toMatchObject({ kind: 'granted', token: 10 });
    expect(key.isChanged).toBe(true);
    expect(key.document.holders).toEqual([holder(ME, { claim: SHARED, until: { inMs: LEASE } }), other]);
  });

  it('with a shared claim makes the lock shared with its whole lease, and lets in the readers that wait', () => {
    const reader = waiter(OTHER, { claim: SHARED });
    const key = state({ document: { holders: [holder(ME)], queue: [reader] } });
    expect(key.renew(renewal({ claim: SHARED }))).toMatchObject({ kind: 'granted', token: 10 });
    expect(key.document.holders).toMatchObject([
      { owner: ME, claim: SHARED, until: { inMs: LEASE } },
      { owner: OTHER, claim: SHARED },
    ]);
  });

  it('that was sent before the downgrade of its holder leaves the lock shared', () => {
    const key = state(held(holder(ME, { claim: SHARED })));
    expect(key.renew(renewal())).toMatchObject({ kind: 'granted' });
    expect(key.document.holders).toMatchObject([{ owner: ME, claim: SHARED }]);
  });

  describe('where a session keeps leases', () => {
    const mine = holder(ME, { leaseMs: LEASE });
    const isWritten = (before: Partial<Holder>, more: Partial<Renewal> = {}): boolean => {
      const key = state({ ...held({ ...mine, ...before }), areRenewalsWritten: false });
      expect(key.renew(renewal(more))).toMatchObject({ kind: 'granted' });
      return key.isChanged;
    };

    it('writes nothing, because the lease goes on by itself', () => {
      expect(isWritten({})).toBe(false);
    });

    it.each<[string, Partial<Holder>, Partial<Renewal>]>([
      ['sets another length', {}, { leaseMs: 2 * LEASE }],
      ['confirms the grant of another client', { isUnconfirmed: true }, {}],
      ['downgrades the lock', {}, { claim: SHARED }],
    ])('is written if it %s', (_, before, more) => {
      expect(isWritten(before, more)).toBe(true);
    });

    it('has the tokens that a further request reserves written', () => {
      const key = state({ ...held(mine), areRenewalsWritten: false });
      expect(key.acquire(request(ME, { tokens: 5 }))).toMatchObject({ token: 10, lastToken: 14 });
      expect(key.isChanged).toBe(true);
    });
  });
});

describe('what a change must not undo', () => {
  it('the place of a waiter: a newcomer is behind it, also when the clock of the store was set back', () => {
    const last = waiter(OTHER, { ticket: 2 * NEXT_TICKET });
    const key = state({ document: { holders: [holder(THIRD)], queue: [last] } });
    key.acquire(request(ME, { mayWait: true }));
    expect(key.document.queue.map(({ owner }) => owner)).toEqual([OTHER, ME]);
  });

  it('a takeover that its holder has not read: a renewal keeps it', () => {
    const takeover = { graceMs: 500, by: 'another' };
    const key = state(held(holder(ME, { takeover })));
    key.renew({ key: 'k', owner: ME, claim: LOCK, leaseMs: LEASE, token: 10, lastToken: 10 });
    expect(key.document.holders).toEqual([expect.objectContaining({ owner: ME, takeover })]);
  });

  it('the tokens of a later grant: an earlier owner gives back none of its own', () => {
    const mine = holder(ME, { claim: SHARED, token: 5, lastToken: 14 });
    const later = holder(OTHER, { claim: SHARED, token: 15, lastToken: 15 });
    const key = state({ ...held(mine, later), lastToken: 15 });
    key.release({ owner: ME, used: { token: 5, lastToken: 14 } });
    expect(key.lastToken).toBe(15);
  });
});

describe('a write is exact', () => {
  const failOnUnreadNotes = (given: Given, change: (key: KeyState) => unknown): boolean => {
    const key = state(given);
    change(key);
    return key.failOnUnreadNotes;
  };
  const release = (owner: string) => (key: KeyState) => key.release({ owner });

  it('if it frees the key: the owner of an unread note would sleep beside it', () => {
    expect(failOnUnreadNotes(held(holder(ME)), release(ME))).toBe(true);
  });

  it('if it leaves readers or permits without a queue: the owner of an unread note could join them', () => {
    expect(failOnUnreadNotes(held(holder(ME), holder(OTHER, { claim: SHARED })), release(ME))).toBe(true);
    const pool = held(holder(ME, { claim: permits(1) }), holder(OTHER, { claim: permits(1) }));
    expect(failOnUnreadNotes(pool, release(ME))).toBe(true);
  });

  it('if it puts its own owner into the queue or inside: an unread note may be older', () => {
    expect(failOnUnreadNotes(held(holder(OTHER)), (key) => key.acquire(request(ME, { mayWait: true })))).toBe(
      true,
    );
    expect(failOnUnreadNotes({}, (key) => key.acquire(request(ME)))).toBe(true);
    const first = { document: { queue: [waiter(ME)] } };
    expect(failOnUnreadNotes(first, (key) => key.acquire(request(ME, { mayWait: true })))).toBe(true);
  });

  it('if it releases an owner with an unanswered acquire: an unread note may be of that owner', () => {
    const given = { document: { holders: [holder(ME)], queue: [waiter(OTHER)] } };
    expect(failOnUnreadNotes(given, (key) => key.release({ owner: ME }, { mayHaveNote: true }))).toBe(true);
  });

  it('if it releases an owner in a document that a message has brought: a note of that owner may be missing', () => {
    const queued = { document: { holders: [holder(OTHER)], queue: [waiter(ME)] } };
    expect(failOnUnreadNotes(queued, release(ME))).toBe(false);
    expect(failOnUnreadNotes({ ...queued, mayLackNotes: true }, release(ME))).toBe(true);
  });

  it('but not if it hands the key to the first waiter, so that notes do not hold up a release', () => {
    const given = { document: { holders: [holder(ME)], queue: [waiter(OTHER)] } };
    expect(failOnUnreadNotes(given, release(ME))).toBe(false);
  });
});
