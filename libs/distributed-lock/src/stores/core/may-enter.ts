import { isExclusive, type Claim } from '../../port/claim.js';
import { LockStoreError } from '../../port/lock.errors.js';

/** Whether an owner with this claim may hold the key beside these holders. */
export function mayEnter(claim: Claim, holders: readonly Claimed[]): boolean {
  if (isExclusive(claim)) return holders.length === 0;
  if (claim.kind === 'shared') return holders.every((holder) => holder.claim.kind === 'shared');
  const taken = holders.reduce((sum, holder) => sum + weightOf(holder.claim), 0);
  return taken + claim.weight <= claim.permits;
}

/** Permits are counted, locks are not: a key is used in one of the two ways at a time. */
export function isOtherKind(claim: Claim, usedAs: Claim | undefined): boolean {
  return usedAs !== undefined && (usedAs.kind === 'permits') !== (claim.kind === 'permits');
}

/** @throws LockStoreError when the key is in use as the other kind of lock */
export function checkKind(
  { key, claim }: Claimed & { readonly key: string },
  usedAs: Claim | undefined,
): void {
  if (!isOtherKind(claim, usedAs)) return;
  const [asked, used] = claim.kind === 'permits' ? ['permits', 'a lock'] : ['a lock', 'permits'];
  const message = `Could not acquire "${key}" as ${asked}: it is in use as ${used}. Give the two different keys.`;
  throw new LockStoreError(message, key, 'refused');
}

interface Claimed {
  readonly claim: Claim;
}

function weightOf(claim: Claim): number {
  return claim.kind === 'permits' ? claim.weight : 0;
}
