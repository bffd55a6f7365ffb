/** Rules that PostgreSQL's statements keep, switched off one at a time. @type {readonly import('../index.d.mts').Mutant[]} */
export const SQL_MUTANTS = [
  {
    store: 'postgres',
    says: 'takes and swaps are executed however late they are',
    file: 'postgres/statements.js',
    from: 'until: micros(deadline())',
    to: 'until: micros(deadline() + 60_000)',
    kind: 'late-takes',
    rules: ['liveness'],
  },
  {
    store: 'postgres',
    says: 'a swap writes whatever the version is',
    file: 'postgres/statements.js',
    from: 'AND version = $2::bigint',
    to: 'AND $2::bigint IS NOT NULL',
    kind: 'aborts',
    rules: ['exclusion', 'tokens', 'register', 'liveness', 'remains'],
  },
  {
    store: 'postgres',
    says: 'tokens start at 1 when the row is gone',
    file: 'postgres/statements.js',
    from: 'greatest(${NOW}, $3::bigint) + $4::bigint',
    to: 'least($3::bigint, 1) + $4::bigint',
    kind: 'table-dropped',
    rules: ['tokens', 'exclusion', 'register'],
  },
];
