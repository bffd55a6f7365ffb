import type { HoldRecord } from './history.js';

/** A server came back without some of what it knew, or forgot it. Written by its back end, which alone knows what it was. */
export interface Loss {
  /** When it crashed, or forgot. All times are true times, in ms. */
  readonly at: number;
  /** When it answers again. */
  readonly to: number;
  readonly leases: readonly LostLease[];
  /** docs/guarantees.md, replicas: the new master is a replica that has each grant whose caller was let in. */
  readonly isCovered: boolean;
  /** docs/guarantees.md, after a loss of data: it grants nothing until all that it forgot is over. */
  readonly isGuarded: boolean;
  /** Its clock is behind that of another server. */
  readonly isBehind: boolean;
}

/** A lease that it does not have any more, or that ends earlier by what it has now. */
export interface LostLease {
  readonly key: string;
  readonly owner: string;
  readonly until: number;
  /** `-Infinity` if it is not there at all. */
  readonly keptUntil: number;
}

/**
 * The lease of this hold, if it is among those that were lost. A caller is let in when the replicas have its grant: after the
 * crash of the master no call may begin that a covered replica knows nothing of.
 */
export function lostLeaseOf({ at, leases, isCovered }: Loss, hold: HoldRecord): LostLease | undefined {
  const lease = leases.find((it) => it.key === hold.key && it.owner === hold.owner);
  const mustBeKept = isCovered && hold.from > at && lease?.keptUntil === -Infinity;
  return mustBeKept ? undefined : lease;
}
