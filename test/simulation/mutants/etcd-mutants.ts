import { mutantsOf, type Mutant } from './mutant.js';

const ROOM = 'etcd';

/** The client of etcd: its fence, its session, its mailbox, and what it makes of an answer that is an error or does not come. */
export const ETCD_MUTANTS: readonly Mutant[] = [
  ...mutantsOf('etcd', `${ROOM}/pipe.js`, [
    [
      'a transaction without an answer raises no epoch',
      'if (session && isWrite && !failure.isAnswered)',
      'if (false)',
    ],
    [
      'a write does not depend on the epoch of its session',
      "result: epoch === undefined ? 'EQUAL' : 'LESS', value",
      "result: epoch === undefined ? 'GREATER' : 'LESS', value: epoch === undefined ? Buffer.alloc(0) : value",
    ],
    [
      'the key of a session is no longer under its lease once a fence has written it',
      '{ key, value, ignoreLease: true }',
      '{ key, value }',
    ],
    [
      'a transaction without an answer counts as not executed',
      "isWrite ? failure : { ...failure, reason: 'unready' }",
      "{ ...failure, reason: 'unready' }",
    ],
    [
      'what names a session that is over is written under the next one',
      'this.refuseThoseOfOtherSessions(session);',
      '',
      'Each client that reads it learns that the session is over, and takes what it names for over.',
    ],
    [
      'a session that etcd does not know is used again and again',
      'const isGone = responses[0]?.responseRange?.count === 0 || epoch !== undefined;',
      'const isGone = false;',
    ],
  ]),
  ...mutantsOf('etcd', 'connection/reply-deadline.js', [
    [
      'a transaction waits for its answer for ten timeouts',
      '(timeoutOf?.(request) ?? commandTimeoutMs)',
      '10 * (timeoutOf?.(request) ?? commandTimeoutMs)',
    ],
  ]),
  ...mutantsOf('etcd', `${ROOM}/batch.js`, [
    [
      'two writes of one transaction may write one document',
      '!this.keys.has(key)',
      'true',
      'A client has one task of a key under way, and a take of several keys finds a key in use that is about to be released. So the two are never both executed.',
    ],
    [
      'a message is sent although its write is not executed',
      'const compare = [...mail.compare, ...(txn.compare ?? [])];',
      'const compare = mail.compare;',
    ],
  ]),
  ...mutantsOf('etcd', `${ROOM}/sessions.js`, [
    [
      'a keep-alive counts although another leader was elected meanwhile',
      'if (header?.raftTerm !== alive.header?.raftTerm)',
      'if (false)',
    ],
    ['a keep-alive counts from its answer', 'session.onAlive(sentAt);', 'session.onAlive(clock.now());'],
    [
      'a session counts from the reply to its opening',
      'new EtcdSession(ID, TTL * 1000, sentAt)',
      'new EtcdSession(ID, TTL * 1000, clock.now())',
    ],
    [
      'a session is kept alive once in its length',
      'export const KEEP_ALIVES = 6;',
      'export const KEEP_ALIVES = 1;',
    ],
    [
      'a keep-alive that failed is not repeated at once',
      'next = Math.min(next, clock.now() + RETRY_MS);',
      '',
      'The next one is soon enough: four in a row may fail before a session ends, and no more is promised than that one lost message costs no lock.',
    ],
    [
      'an opening that is executed late sets the epoch back',
      "compare.push({ key: presence, target: 'CREATE', result: 'EQUAL', createRevision: 0 });",
      '',
    ],
    [
      'a closed client leaves no session for what must stay',
      "keepSession ? 'LeaseKeepAlive' : 'LeaseRevoke'",
      "'LeaseRevoke'",
    ],
    [
      'the key of a session is not under its lease',
      '{ key: presence, value: EtcdSession.epochText(session.epoch), lease }',
      '{ key: presence, value: EtcdSession.epochText(session.epoch) }',
    ],
    ['a loss of the session is not told', 'this.options.onEnd(session);', ''],
  ]),
  ...mutantsOf('etcd', `${ROOM}/member.js`, [
    [
      'a request that timed out in etcd counts as not executed',
      "[/request timed out|leader changed|stopped/, { reason: 'unknown', detail: '', isOfMember: true }]",
      "[/request timed out|leader changed|stopped/, { reason: 'unready', detail: '', isOfMember: true }]",
    ],
    [
      'a request counts as not sent when its connection breaks',
      'if (NOT_SENT.test(details))',
      "if (NOT_SENT.test(details) || details === 'Connection dropped')",
    ],
    [
      'a member that does not know its leader is not left',
      "unready('it has no leader', { isOfMember: true })",
      "refused('it has no leader')",
      'The simulated etcd has one member. Without its leader all fail, whatever they do.',
    ],
  ]),
  ...mutantsOf('etcd', `${ROOM}/sessions.js`, [
    [
      'a watch that has ended is not begun again',
      'clock.after(REWATCH_MS, () => this.watch())',
      '() => undefined',
    ],
    [
      'a watch that begins again begins at the present',
      'startRevision: this.from',
      'startRevision: 0',
      'What was written meanwhile is missed, and the mailbox tells of the gap: all who wait ask again at once.',
    ],
    [
      'a watch of revisions that etcd has compacted is begun again as it was',
      'if (compactRevision > 0)',
      'if (false)',
    ],
    [
      'it is not told that messages may have been lost',
      'if (!this.isFirst)',
      'if (false)',
      'The watch goes on from the revision that it has read. Where etcd has compacted what came after that, it tells of the gap elsewhere.',
    ],
    [
      'messages up to an old revision are waited for after a restore',
      'if (this.from <= revision + 1)',
      'if (true)',
    ],
  ]),
  ...mutantsOf('etcd', `${ROOM}/batch.js`, [
    [
      'a message to a client that is gone fails the swap',
      "target: 'CREATE', result: 'GREATER', createRevision: 0",
      "target: 'CREATE', result: 'GREATER', createRevision: -1",
    ],
  ]),
  ...mutantsOf('etcd', `${ROOM}/backend.js`, [
    [
      'a swap does not depend on the version of the document',
      "{ key: document, target: 'MOD', result: 'EQUAL', modRevision: version }",
      "{ key: document, target: 'MOD', result: 'GREATER', modRevision: -1 }",
    ],
    [
      'a take does not depend on the version of the document',
      "{ key: keys.document(name), target: 'MOD', result: 'EQUAL', modRevision }",
      "{ key: keys.document(name), target: 'MOD', result: 'GREATER', modRevision: -1 }",
    ],
    ['an exact swap does not look at the notes', 'if (areAll)', 'if (false)'],
    [
      'notes that were taken in are not deleted',
      'const deletions = noteKeys.map(deleted);',
      'const deletions = [];',
    ],
    [
      'notes are not under the lease of their client',
      'key: keys.note(name, id), value, lease }',
      'key: keys.note(name, id), value }',
    ],
  ]),
];
