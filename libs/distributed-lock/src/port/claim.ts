/** How a lock is held: alone, with other readers, or with others up to a number. */
export type LockMode = 'exclusive' | 'shared' | 'permits';

/** In which way an owner takes its key. It stays the same, except that a holder may step down to `shared`. */
export type Claim =
  /** Alone. `exclusive` is the writer's side of a read-write lock: the same here, another format in some stores. */
  | { readonly kind: 'lock' }
  | { readonly kind: 'exclusive' }
  /** Together with all others that are `shared`. */
  | { readonly kind: 'shared' }
  /** `weight` of the `permits` that may be held together. Each claim counts by its own number, so that it may change. */
  | { readonly kind: 'permits'; readonly permits: number; readonly weight: number };

export const LOCK: Claim = { kind: 'lock' };
export const SHARED: Claim = { kind: 'shared' };

export function modeOf({ kind }: Claim): LockMode {
  return kind === 'lock' ? 'exclusive' : kind;
}

/** One holder at a time. */
export function isExclusive(claim: Claim): claim is Extract<Claim, { kind: 'lock' | 'exclusive' }> {
  return claim.kind === 'lock' || claim.kind === 'exclusive';
}

/** Whoever holds `held` has what `wanted` asks for. */
export function covers(held: Claim, wanted: Claim): boolean {
  if (isExclusive(held)) return wanted.kind !== 'permits';
  if (held.kind === 'permits') return wanted.kind === 'permits' && wanted.weight <= held.weight;
  return wanted.kind === 'shared';
}

/** As a caller would say it. */
export function claimText(claim: Claim): string {
  if (claim.kind !== 'permits') return modeOf(claim);
  return `${claim.weight} of ${claim.permits} permits`;
}
