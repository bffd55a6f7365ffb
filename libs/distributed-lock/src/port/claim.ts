/** How an owner asks for its key. An owner keeps its claim, except that an exclusive holder may downgrade to `shared`. */
export type Claim =
  /** One owner holds alone. `exclusive` is the writer's side of a read-write lock, which some stores keep in another format. */
  | { readonly kind: 'lock' }
  | { readonly kind: 'exclusive' }
  /** The owner holds together with all other `shared` owners. */
  | { readonly kind: 'shared' }
  /** The owner takes `weight` permits of a semaphore. Each claim is checked against its own `permits`, which may change. */
  | { readonly kind: 'permits'; readonly permits: number; readonly weight: number };

/** How a lock is held: alone, with other readers, or with others up to a number. */
export type LockMode = 'exclusive' | 'shared' | 'permits';

export const LOCK: Claim = { kind: 'lock' };
export const SHARED: Claim = { kind: 'shared' };

export function modeOf({ kind }: Claim): LockMode {
  return kind === 'lock' ? 'exclusive' : kind;
}

/** True for a claim that allows one holder at a time. */
export function isExclusive(claim: Claim): claim is Extract<Claim, { kind: 'lock' | 'exclusive' }> {
  return claim.kind === 'lock' || claim.kind === 'exclusive';
}

/** True if a holder with the claim `held` already has what `wanted` asks for. */
export function covers(held: Claim, wanted: Claim): boolean {
  if (isExclusive(held)) return wanted.kind !== 'permits';
  if (held.kind === 'permits') return wanted.kind === 'permits' && wanted.weight <= held.weight;
  return wanted.kind === 'shared';
}

/** The claim in the words of the call options, for messages. */
export function claimText(claim: Claim): string {
  if (claim.kind !== 'permits') return modeOf(claim);
  return `${claim.weight} of ${claim.permits} permits`;
}
