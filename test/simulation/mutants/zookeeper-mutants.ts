import { mutantsOf, type Mutant } from './mutant.js';

const ROOM = 'zookeeper';

/** The client of ZooKeeper: what it believes of its session, and what it knows of its requests. */
export const ZOOKEEPER_MUTANTS: readonly Mutant[] = [
  ...mutantsOf('zookeeper', 'document/key-state.js', [
    [
      'the note of an owner that was refused for the kind of its lock stays',
      '...document.holders, ...notes,',
      '...document.holders,',
    ],
  ]),
  ...mutantsOf('zookeeper', 'zookeeper/documents.js', [
    [
      'parents that were deleted are not made again',
      'if (failure.code !== CODE.noNode || !failure.failed.operation.isCreation)',
      'if (true)',
    ],
    [
      'the parent of notes is not made again',
      "const isMissing = failed.name === 'note' && code === CODE.noNode;",
      'const isMissing = false;',
    ],
  ]),
  ...mutantsOf('zookeeper', 'zookeeper/session-life.js', [
    ['a mailbox that was deleted is not made again', 'return this.makeAgain();', 'return;'],
  ]),
  ...mutantsOf('zookeeper', `${ROOM}/client/session.js`, [
    [
      'a session counts from requests that the leader was not told of',
      'syncSentAt - this.sessionMs * PINGED_WITHIN',
      'syncSentAt',
    ],
  ]),
  ...mutantsOf('zookeeper', `${ROOM}/client/session.js`, [
    [
      'a keep-alive counts although its leader may be deposed',
      'await this.measured(this.options.keepAlive());',
      '',
    ],
    [
      'a session counts from the moment of its resuming without a write',
      'this.options.keepAlive().then(() => this.countFrom(connection, resumedAt))',
      'Promise.resolve(this.countFrom(connection, resumedAt))',
    ],
    [
      'a session counts from the reply to its opening',
      'this.countedFrom = sentAt;',
      'this.countedFrom = this.options.clock.now();',
    ],
    [
      'a session that no server resumes lives for ever',
      'clock.now() > this.countedFrom + this.grantedMs * RESUMED_WITHIN',
      'Infinity < 0',
    ],
    [
      'a client says that it has seen nothing',
      'const { sessionId, password, zxid: lastZxid } = this;',
      'const { sessionId, password } = this; const lastZxid = 0;',
      'Each reading that decides is made behind a sync or a write of its session. After the restore of a backup, of which this keeps clients out, two holders are excused.',
    ],
  ]),
  ...mutantsOf('zookeeper', `${ROOM}/client/connection.js`, [
    [
      'a request whose reply did not come counts as not executed',
      ' reject(new ConnectionLostError(error))',
      ' reject(new ZookeeperRefusalError(-127))',
    ],
  ]),
  ...mutantsOf('zookeeper', `${ROOM}/session-life.js`, [
    ['a mailbox is read without a watch', 'getData(path, true)', 'getData(path, false)'],
    ['messages that were overwritten are not missed', 'version !== before + 1', 'false'],
  ]),
  ...mutantsOf('zookeeper', `${ROOM}/znodes.js`, [
    [
      'a server that lags behind answers as it is',
      'this.syncing = this.session.send(Request.sync(this.paths.base));',
      'this.syncing = Promise.resolve();',
    ],
  ]),
  ...mutantsOf('zookeeper', `${ROOM}/documents.js`, [
    [
      'a write does not depend on the version of the document',
      'setData(path, text, conditionOf(path, version));',
      'setData(path, text, ANY_VERSION);',
    ],
  ]),
  ...mutantsOf('zookeeper', `${ROOM}/documents.js`, [
    [
      'a write does not depend on the presence of its session',
      'check(presence, ANY_VERSION)',
      "check('/nest-lock', ANY_VERSION)",
      'The servers refuse what a session writes that is over. This is for a presence that somebody deletes by hand, which costs locks as a release by force does.',
    ],
  ]),
];
