import { SESSION_MUTANTS } from './session-mutants.mjs';
import { SQL_MUTANTS } from './sql-mutants.mjs';

/**
 * The library with one rule of its protocol switched off, and where that shows. `rules`: one of them must be found
 * broken.
 *
 * @type {readonly import('../index.d.mts').Mutant[]}
 */
export const MUTANTS = [
  {
    says: 'holders believe in their locks for three leases',
    file: 'port/timing.js',
    from: 'return startedAt + leaseMs - leaseMargin(leaseMs)',
    to: 'return startedAt + 3 * leaseMs',
    kind: 'freeze-holder',
    rules: ['exclusion'],
  },
  {
    says: 'acquires are executed however late they are',
    file: 'redis/scripts/lua.generated.js',
    from: 'if now > tonumber(ARGV[3]) then',
    to: 'if false then',
    kind: 'late-requests',
    rules: ['liveness'],
  },
  {
    says: 'tokens start at 1 when the counter is gone',
    file: 'redis/scripts/lua.generated.js',
    from: 'and micros or min_token + 1',
    to: 'and 1 or min_token + 1',
    kind: 'restart-empty',
    rules: ['tokens', 'exclusion'],
  },
  {
    says: 'what an idle connection has swallowed is not asked again',
    file: 'redis/idle-probe.js',
    from: 'return this.isOpen && isRepeatable',
    to: 'return false && isRepeatable',
    kind: 'idle-forgotten',
    rules: ['errors'],
  },
  {
    says: 'x and {x} share the line and the tokens',
    file: 'redis/keys.js',
    from: 'return tag === undefined ?',
    to: 'return true ?',
    kind: 'calm',
    rules: ['exclusion'],
  },
  {
    says: 'one node of three is a majority',
    file: 'quorum/store.js',
    from: 'majority: Math.floor(nodes.length / 2) + 1,',
    to: 'majority: Math.floor(nodes.length / 2),',
    kind: 'quorum-views',
    rules: ['exclusion'],
  },
  {
    says: 'node leases that are no majority are kept',
    file: 'quorum/acquire.js',
    from: 'if (owner.cancelGivingBack || owner.hasLeft)',
    to: 'if (true)',
    kind: 'quorum-views',
    rules: ['liveness'],
  },
  ...SQL_MUTANTS,
  ...SESSION_MUTANTS,
];
