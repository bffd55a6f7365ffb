import { mutantsOf, type Mutant } from './mutant.js';

/** The core of the stores of documents. */
export const DOCUMENT_MUTANTS: readonly Mutant[] = [
  ...mutantsOf('documents', 'sql/register.js', [
    [
      'a sweep frees what was not written for an hour, also if it is held',
      '[...holders, ...queue].every(({ until }) => isOver(until, limit))',
      'true',
    ],
    ['what a crashed process has left is never swept', '!isAbandoned(expected)', 'true'],
    [
      'free rows are never deleted',
      'free.length === 0 || (await succeeds(documents.deleteFree(free)))',
      'true',
    ],
  ]),
  ...mutantsOf('documents', 'document/key-state.js', [
    [
      'a key in use as a lock is given out by permits',
      'return usedAs !== undefined && (usedAs.kind',
      'return false && (usedAs.kind',
    ],
    [
      'a free key is refused to permits',
      'return usedAs !== undefined && (usedAs.kind',
      'return (usedAs?.kind',
    ],
  ]),
  ...mutantsOf('documents', 'document/key-state.js', [
    [
      'permits of a key that is in use as a lock are waited for',
      'checkKind(request, this.usedAs);',
      'if (isOtherKind(claim, this.usedAs)) return this.queuedOrBusy(request);',
    ],
    [
      'a detached lock is attached twice',
      'this.replace(detached, holder);',
      'this.holders = [...this.holders, holder];',
    ],
    [
      'an attached lock has a token of its own',
      'const holder = { owner, claim: detached.claim, token, lastToken: token,',
      'const holder = { owner, claim: detached.claim, token: token + 1, lastToken: token + 1,',
    ],
    ['leases end half a second early', '!isOver(until, now))', '!isOver(until, now + 500))'],
    ['an owner that asks again waits for itself', 'if (mine)', 'if (false)'],
    [
      'a takeover or a forced release frees whoever holds',
      'const named = new Set(owners);',
      'const named = new Set(this.holders.map((it) => it.owner));',
    ],
    [
      'the shorter grace of a later takeover is not written',
      'if (holder.takeover && holder.takeover.graceMs <= graceMs)',
      'if (holder.takeover)',
    ],
    ['a takeover is told to nobody', 'this.notifyClientsOf([holder]);', ''],
    [
      'tokens are given back under a later grant',
      'if (holder && used?.lastToken === this.lastTokenNow)',
      'if (holder && used)',
    ],
    ['further waiters of a client that is gone stay in the queue', 'if (clients.size > 0)', 'if (false)'],
    ['maxWaiting is ignored', 'if (this.isOneTooMany(request))', 'if (false)'],
    [
      'the maxWaiting of a note is ignored',
      'if (!this.isQueued(note.owner) && this.isFull(note))',
      'if (false)',
    ],
    [
      'an owner that is refused leaves its note',
      'if (this.reading.notes.some((note) => note.owner === owner))',
      'if (false)',
    ],
    [
      'the last to come is the first in the queue',
      'const behind = this.queue.findIndex((other) => other.ticket > ticket);',
      'const behind = 0;',
    ],
    [
      'permits of one key have one token',
      'const token = Math.max(',
      "const token = claim.kind === 'permits' && this.holders.length > 0 ? this.holders[0].token : Math.max(",
    ],
    [
      'a grant of permits forgets the last token of its key',
      'const token = Math.max(this.lastTokenNow,',
      "const token = Math.max(claim.kind === 'permits' ? 0 : this.lastTokenNow,",
    ],
    [
      'one owner more than maxWaiting waits',
      'this.countOthers(owner) >= maxWaiting',
      'this.countOthers(owner) > maxWaiting',
    ],
    ['a downgrade is not written', 'if (isDowngraded) {', 'if (false) {'],
    ['the rest of a minimum hold is not written', 'if (holder && holdMs > 0)', 'if (false)'],
    [
      'a renewal under another grant counts',
      'if (mine?.token !== token)',
      'if (!mine)',
      'The lane compares its owners with the document of each reply, in the same turn, and tells the loss all the same.',
    ],
    [
      'a detached lock is attached twice',
      'this.replace(detached, holder);',
      'this.holders = [...this.holders, holder];',
    ],
    [
      'a release takes the lock from everybody',
      'this.holders = this.holders.filter((each) => each !== holder);',
      'this.holders = [];',
    ],
    [
      'tokens go on from the clock alone',
      'Math.max(this.lastTokenNow, this.reading.ticks, minToken, this.client.minToken) + 1',
      'this.reading.ticks + 1',
    ],
    ['a write may overtake notes', 'this.hasAddedOwner ||', 'false &&'],
    [
      'a renewal does not move the end of the lease',
      'const until = { inMs: leaseMs };',
      'const until = mine.until;',
    ],
    ['notes are not read', 'this.mergeNote(note);', ';'],
    ['waiters are granted in any order', 'other.ticket > ticket', 'other.ticket < ticket'],
    [
      'a waiter that is gone is granted',
      'return isOver(until, this.now) || this.client',
      'return this.client',
    ],
  ]),
  ...mutantsOf('documents', 'document/key-state.js', [
    [
      'readers enter beside a writer',
      "return holders.every((holder) => holder.claim.kind === 'shared');",
      'return true;',
    ],
    [
      'the weight of a permit is not looked at',
      'return used + claim.weight <= claim.permits;',
      'return used < claim.permits;',
    ],
    ['a writer enters beside one holder', 'return holders.length === 0;', 'return holders.length <= 1;'],
  ]),
  ...mutantsOf('documents', 'document/document.js', [
    [
      'an owner with maxWaiting leaves no note, however many swaps it loses',
      '(maxWaiting === Infinity || lostSwaps > 0)',
      'maxWaiting === Infinity',
    ],
  ]),
  ...mutantsOf('documents', 'document/lane.js', [
    ['a write is tried again however long it takes', 'const MIN_TRIES = 2', 'const MIN_TRIES = 12'],
    [
      'nobody leaves a note after lost writes',
      'const TRIES_WITHOUT_NOTES = 2',
      'const TRIES_WITHOUT_NOTES = 1000',
    ],
    ['a take counts although another client had the document', 'if (!isDone)', 'if (false)'],
    ['a swap counts although another client was first', 'if (isDone)', 'if (true)'],
    ['an older document is taken for a newer one', 'a.order > b.order ||', 'a.order < b.order ||'],
  ]),
  ...mutantsOf('documents', 'document/timed-register.js', [
    [
      'the time of the store is taken for later than it is',
      'const receivedAt = clock.now();',
      'const receivedAt = clock.now() - 500;',
    ],
  ]),
  ...mutantsOf('documents', 'document/lane-owners.js', [
    [
      'a waiter does not see its grant in the document',
      'holder && holder.nonce === this.context.client.nonce',
      'false',
    ],
    ['the holder is not told that others wait', 'if (queue.length > 0)', 'if (false)'],
  ]),
];
