/** The library with one rule switched off, as a change of one of its files. */
export interface Mutant {
  /** What is wrong with it, as a sentence. */
  readonly says: string;
  /** Below `libs/distributed-lock/src`, as it is built. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
  readonly store: 'documents' | 'redis' | 'quorum' | 'etcd' | 'zookeeper';
  /** Why the simulation cannot see it, or why it is no mistake. */
  readonly hidden?: string;
}

type Change = readonly [says: string, from: string, to: string, hidden?: string];

/** Mutants of one file. */
export function mutantsOf(
  store: Mutant['store'],
  file: string,
  changes: readonly Change[],
): readonly Mutant[] {
  return changes.map(([says, from, to, hidden]) => ({
    says,
    file,
    from,
    to,
    store,
    ...(hidden !== undefined && { hidden }),
  }));
}
