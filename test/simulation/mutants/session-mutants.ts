import { mutantsOf, type Mutant } from './mutant.js';

const ROOM = 'session';

/** What etcd and ZooKeeper have in common: sessions of other clients, and leases that no server ends. */
export const SESSION_MUTANTS: readonly Mutant[] = [
  ...mutantsOf('zookeeper', 'document/leases.js', [
    [
      'a grant is believed in before it is confirmed',
      'return -Infinity;',
      'return reading.validUntil ?? Infinity;',
    ],
    [
      'the minimum hold of a client that has closed ends with it',
      'return this.leases.size > 0;',
      'return false;',
    ],
    ['a lease that was renewed meanwhile is ended', '() => this.isOver(owner)', '() => true'],
    ['what no owner answers for is never released', 'this.expireOrphan(key, owner)', 'undefined'],
  ]),
  ...mutantsOf('etcd', `${ROOM}/register.js`, [
    [
      'a sweep deletes what a living session holds',
      'sessions.length === 0 || (await this.backend.endedAmong(sessions)).length === sessions.length',
      'true',
    ],
  ]),
  ...mutantsOf('etcd', 'document/leases.js', [
    ['no lease is ended', 'this.endInStore(key, owner);', 'void owner;'],
    [
      'a lease whose end was not answered is left',
      'endsAt > now ? endsAt : now + this.client.commandTimeoutMs',
      'endsAt > now ? endsAt : Infinity',
    ],
    [
      'leases end at half of their time',
      'const endsAt = this.clock.now() + ms;',
      'const endsAt = this.clock.now() + ms / 2;',
    ],
    [
      'a lease ends while its renewal is under way',
      'lease.endsAt = Math.max(lease.endsAt, this.clock.now() + ms);',
      ';',
      'Its holder has given the lock up by then: it believes in a lease for less than its length, also while a renewal is under way.',
    ],
  ]),
  ...mutantsOf('zookeeper', 'document/leases.js', [
    [
      'a fixed lease is believed in for longer than the session is certain',
      'const validUntil = Math.min(endsAt, this.sessionUntil());',
      'const validUntil = endsAt;',
    ],
    [
      'a fixed lease that is longer than the session is believed in until the session ended at first',
      'this.leases.set(owner, { key, token, lastToken, endsAt, notifiedUntil });',
      '',
    ],
  ]),
  ...mutantsOf('etcd', `${ROOM}/register.js`, [
    [
      'a lock is believed in for longer than the session',
      'validUntil: session.validUntil,',
      'validUntil: Infinity,',
    ],
    [
      'what was held under the last session is written as held under the next',
      'if (sessionEnds !== this.sessionEnds)',
      'if (false)',
      'A write waits at that point only while no session is open, and then no lane has a document to write: the end of the session has taken it away in the same turn.',
    ],
    [
      'a session that was asked for without an answer counts as over',
      '.catch(() => [])',
      '.catch(() => unknown)',
    ],
    ['a session that is over counts as alive', "ended.has(each) ? 'onEnd' : 'onAlive'", "'onAlive'"],
    [
      'a free document is deleted although tokens beyond its revision were reserved',
      'isFree(next) && lastToken <= this.lastReplyRevision',
      'isFree(next)',
    ],
    [
      'a free document is deleted although only a revision from before a restore is larger than its tokens',
      'lastToken <= this.lastReplyRevision',
      'lastToken <= this.revision',
    ],
    [
      'an emptied document is taken without a look at the tokens that were reserved',
      'firstGrantOf(request), lastToken, session.id',
      'firstGrantOf(request), 0, session.id',
    ],
    ['a swap tells nobody', 'messagesTo(notified,', 'messagesTo([],'],
    ['the holder is not told that others wait', 'if (take.notes.length > 0)', 'if (false)'],
    ['a loss is not told', 'listener.onSessionEnd?.();', ''],
  ]),
  ...mutantsOf('etcd', `${ROOM}/remembered-documents.js`, [
    ['a session is asked for once a minute', 'SESSION_KNOWN_MS = 1000', 'SESSION_KNOWN_MS = 60_000'],
    [
      'a grant that is not confirmed is taken back at once',
      'this.sinceOf(holder) + UNCONFIRMED_MS - this.clock.now()',
      'this.sinceOf(holder) - this.clock.now()',
    ],
    ['a grant that is not confirmed stays', 'if (!holder.isUnconfirmed)', 'if (true)'],
    ['a later grant counts as the earlier one', 'if (seen?.token === token)', 'if (seen)'],
    [
      'a waiter whose session is over is granted the lock',
      'this.hasEnded(waiter) ? { ...waiter, until: -Infinity } : waiter',
      'waiter',
      'Its grant is taken back after one to two seconds, and more is not promised where the first in the queue was killed.',
    ],
  ]),
  ...mutantsOf('zookeeper', `${ROOM}/remembered-documents.js`, [
    [
      'the last token of a document is forgotten with its next reading',
      'lastToken: lastToken ?? 0,',
      'lastToken: 0,',
    ],
  ]),
  ...mutantsOf('zookeeper', `${ROOM}/register.js`, [
    [
      'a document that is held is replaced as if it were free',
      'isFree: isFree(document) && notes.length === 0,',
      'isFree: true,',
    ],
    [
      'waiters do not hear that messages may have been lost',
      'onGap: () => listener.onGap()',
      'onGap: () => undefined',
    ],
  ]),
  ...mutantsOf('etcd', 'document/store.js', [
    ['holders do not hear that messages may have been lost', 'if (lane.owners.hasHolder)', 'if (false)'],
  ]),
];
