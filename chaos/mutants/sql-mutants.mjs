/** Rules that each SQL store keeps, switched off one at a time. @type {readonly import('../index.d.mts').Mutant[]} */
const ANY = [
  {
    says: 'releases that were not answered are not repeated',
    file: 'stores/common/certain-releases.js',
    from: 'if (this.isClosed || this.clock.now() > giveUpAt)',
    to: 'if (true)',
    kind: 'lost-request',
    rules: ['liveness'],
  },
  {
    says: 'takes and swaps are executed however late they are',
    file: 'stores/sql/steps.js',
    from: 'late.notAfter()',
    to: 'late.notAfter() + 60_000',
    kind: 'late-requests',
    rules: ['liveness'],
  },
  {
    says: 'a write that frees the lock does not mind notes that it has not read',
    file: 'stores/document/key-state.js',
    from: 'return (this.hasEntered ||',
    to: 'return false && (this.hasEntered ||',
    kind: 'calm',
    rules: ['liveness'],
  },
];

/** @type {readonly import('../index.d.mts').Mutant[]} */
const POSTGRES = [
  {
    says: 'a swap writes whatever the version is',
    file: 'stores/sql/postgres/statements/swap.js',
    from: 'AND version = $2::bigint',
    to: 'AND $2::bigint IS NOT NULL',
    kind: 'calm',
    rules: ['exclusion', 'tokens', 'register'],
  },
  {
    says: 'a connection that was not taken in time is waited for',
    file: 'stores/sql/postgres/own-client.js',
    from: 'await orAborted(client.connect(), signal)',
    to: 'await client.connect()',
    kind: 'server-frozen',
    rules: ['service', 'liveness'],
  },
  {
    says: 'waiters recheck once a minute',
    file: 'port/recheck-interval.js',
    from: 'RECHECK_MS = 1000',
    to: 'RECHECK_MS = 60_000',
    kind: 'pushes-lost',
    rules: ['liveness'],
  },
];

/** @param {readonly import('../index.d.mts').Mutant[]} mutants @param {import('../index.d.mts').StoreName} store */
const on = (mutants, store) => mutants.map((mutant) => ({ store, ...mutant }));

export const SQL_MUTANTS = [
  ...on([...ANY, ...POSTGRES], 'postgres'),
  ...on(ANY, 'mysql'),
  ...on(ANY, 'mariadb'),
];
