import { SESSIONS } from '../stores.mjs';

/** Rules that both stores with sessions keep, switched off one at a time. @type {readonly import('../index.d.mts').Mutant[]} */
const ANY = [
  {
    says: 'holders believe in their sessions for three times their length',
    file: 'port/timing.js',
    from: 'return startedAt + leaseMs - leaseMargin(leaseMs)',
    to: 'return startedAt + 3 * leaseMs',
    kind: 'freeze-holder',
    rules: ['exclusion'],
  },
  {
    says: 'a session that is over counts as alive',
    file: 'session/remembered-documents.js',
    from: 'return session !== undefined && this.sessions.get(session)?.hasEnded === true;',
    to: 'return false;',
    kind: 'crash-holder',
    rules: ['liveness', 'remains'],
  },
  {
    says: 'the first token of a document is 1 and not its revision',
    file: 'document/json.js',
    from: 'const first = token === 0 ? firstOf(last) : token;',
    to: 'const first = token === 0 ? 1 : token;',
    // Its callers pause, so that many find the lock free.
    kind: 'late-takes',
    rules: ['tokens', 'register'],
  },
];

/** @type {readonly import('../index.d.mts').Mutant[]} */
const ETCD = [
  {
    says: 'a swap writes whatever the version is',
    file: 'etcd/backend.js',
    from: "const compare = [{ key: document, target: 'MOD', result: 'EQUAL', modRevision: version }];",
    to: "const compare = [{ key: document, target: 'MOD', result: 'GREATER', modRevision: 0 }];",
    kind: 'aborts',
    rules: ['exclusion', 'tokens', 'register', 'liveness', 'remains'],
  },
  {
    says: 'a write that was not answered is not fenced',
    file: 'etcd/pipe.js',
    from: 'const epoch = session?.needsFence ? session.epoch + 1 : undefined;',
    to: 'const epoch = undefined;',
    kind: 'late-takes',
    rules: ['exclusion', 'tokens', 'register', 'liveness', 'remains'],
  },
];

/** @type {readonly import('../index.d.mts').Mutant[]} */
const ZOOKEEPER = [
  {
    says: 'a swap writes whatever the version is',
    file: 'zookeeper/documents.js',
    from: ': Operation.setData(path, text, conditionOf(path, version));',
    to: ': Operation.setData(path, text, ANY_VERSION);',
    kind: 'aborts',
    rules: ['exclusion', 'tokens', 'register', 'liveness', 'remains'],
  },
];

/** @param {readonly import('../index.d.mts').Mutant[]} mutants @param {import('../index.d.mts').StoreName} store */
const on = (mutants, store) => mutants.map((mutant) => ({ store, ...mutant }));

export const SESSION_MUTANTS = [
  ...SESSIONS.flatMap((store) => on(ANY, store)),
  ...on(ETCD, 'etcd'),
  ...on(ZOOKEEPER, 'zookeeper'),
];
