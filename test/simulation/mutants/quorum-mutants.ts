import { mutantsOf, type Mutant } from './mutant.js';

export const QUORUM_MUTANTS: readonly Mutant[] = [
  ...mutantsOf('quorum', 'quorum/store.js', [
    [
      'one node of three is a majority',
      'majority: Math.floor(nodes.length / 2) + 1',
      'majority: Math.floor(nodes.length / 2)',
    ],
    ['two nodes of five are a majority', 'majority: Math.floor(nodes.length / 2) + 1', 'majority: 2'],
  ]),
  ...mutantsOf('quorum', 'quorum/context.js', [
    ['a lock is valid as long as its longest lease', '[least - 1]', '[0]'],
  ]),
  ...mutantsOf('quorum', 'quorum/acquire.js', [
    [
      'maxWaiting is ignored, whatever the nodes say',
      "const mayWait = request.mayWait && count(replies, 'busy') <= nodes.length - majority;",
      'const mayWait = request.mayWait;',
      'The reply tells how many wait, too, and the core refuses its callers by that.',
    ],
    [
      'leases that are over count for the majority',
      '({ lease }) => lease && lease.validUntil > now',
      '({ lease }) => lease',
      'A grant is believed in for as long as a majority of its leases lasts, so that one that is over makes it an answer that came too late, and no second holder.',
    ],
  ]),
  ...mutantsOf('quorum', 'quorum/acquire.js', [
    [
      'a lease that comes while the lock is held counts at once',
      'confirmSoon(owner);',
      'leases.confirm(leases.newcomers());',
    ],
  ]),
  ...mutantsOf('quorum', 'quorum/acquire.js', [
    ['a confirmation overtakes an extension', 'if (owner.renewalsUnderWay > 0)', 'if (false)'],
  ]),
  ...mutantsOf('quorum', 'connection/owner-requests.js', [
    [
      'an earlier confirmation with the lease from before an extension does not count',
      '[acquire, this.lateRenewal, ...(this.renewalsInFlight ?? [])]',
      '[acquire]',
    ],
  ]),
  ...mutantsOf('quorum', 'quorum/node-owner.js', [
    [
      'a token counts that no majority has reserved',
      'if (!this.isMajority(reserving))',
      'if (reserving.length === 0)',
    ],
    [
      'a node that is silent has taken its lease back',
      'granted.filter((node) => this.counts(node))',
      'granted.filter((node) => this.counts(node) && node.lease.validUntil === Math.max(...granted.map(({ lease }) => lease.validUntil)))',
      'The lock is lost too early, while two of three nodes are silent, so that the store does not answer and the loss is excused.',
    ],
    [
      'a lease under another token counts for the lock',
      'this.held?.nodes.get(node) === node.lease.token',
      'this.held !== undefined',
      'A node gives one attempt a second token only after a force release or a loss of its data, and its store answers a renewal under the first token with "lost" then: this check is the second of two.',
    ],
  ]),
  ...mutantsOf('quorum', 'quorum/node-owner.js', [
    [
      'a node that has forgotten a lease counts as one that renews it',
      "if (reply?.kind === 'lost')",
      "if (reply?.kind === 'lost') this.lease = { ...lease, validUntil };\nelse if (false)",
    ],
  ]),
  ...mutantsOf('quorum', 'quorum/node-owner.js', [
    [
      'a renewal without an answer counts as executed',
      'if (isAnswered && isLatest)',
      'if (isLatest)',
      'A renewal counts once a majority has answered it, and no other lease is longer then. Too much is believed only if an acquire of the owner itself is under way when it is granted by a notification, and two nodes are silent to that and to an extend at once: four messages in one round trip.',
    ],
    [
      'the answer to an earlier renewal counts more than a later one without an answer',
      'if (isAnswered && isLatest)',
      'if (isAnswered)',
      'Until the later one is answered the lease itself believes in the shorter of both lengths, whatever the nodes say.',
    ],
    ['an attempt has the name of the one before', 'this.id = this.nextId();', ''],
  ]),
  ...mutantsOf('quorum', 'redis/scripts/lua.generated.js', [
    ['a second round reserves no tokens', 'if first + tokens - 1 > last then', 'if false then'],
  ]),
  ...mutantsOf('quorum', 'redis/scripts/lua.generated.js', [
    ['a node without its data joins majorities at once', 'local left = open_from - now', 'local left = 0'],
  ]),
  ...mutantsOf('quorum', 'quorum/acquire.js', [
    ['leases short of a majority are kept', 'if (owner.cancelGivingBack || owner.hasLeft)', 'if (true)'],
  ]),
  ...mutantsOf('quorum', 'quorum/acquire.js', [
    [
      'a lock is renewed when one node says so',
      "if (count(answersOf(outcomes), 'renewed') < context.majority)",
      "if (count(answersOf(outcomes), 'renewed') < 1)",
      'The lock is valid for as long as a majority keeps it all the same, so that nothing but a report is missing.',
    ],
  ]),
];
