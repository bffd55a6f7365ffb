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
];

/** @type {readonly import('../index.d.mts').Mutant[]} */
const POSTGRES = [
  {
    says: 'takes and swaps are executed however late they are',
    file: 'stores/sql/sql-requests.js',
    from: 'late.notAfter()',
    to: 'late.notAfter() + 60_000',
    kind: 'late-takes',
    rules: ['liveness'],
  },
  {
    says: 'a swap writes whatever the version is',
    file: 'stores/sql/postgres/statements/swap.js',
    from: 'AND version = $2::bigint',
    to: 'AND $2::bigint IS NOT NULL',
    kind: 'aborts',
    rules: ['exclusion', 'tokens', 'register', 'liveness', 'remains'],
  },
  {
    says: 'tokens start at 1 when the row is gone',
    file: 'stores/sql/postgres/statements/take.js',
    from: 'greatest(${NOW}, $3::bigint) + $4::bigint',
    to: 'least($3::bigint, 1) + $4::bigint',
    kind: 'table-dropped',
    rules: ['tokens', 'exclusion', 'register'],
  },
];

/** @param {readonly import('../index.d.mts').Mutant[]} mutants @param {import('../index.d.mts').StoreName} store */
const on = (mutants, store) => mutants.map((mutant) => ({ store, ...mutant }));

export const SQL_MUTANTS = [
  ...on([...ANY, ...POSTGRES], 'postgres'),
  ...on(ANY, 'mysql'),
  ...on(ANY, 'mariadb'),
];
