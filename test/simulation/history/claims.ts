import type { KeyClaim } from '../../../libs/distributed-lock/src/lock/request/key-claim.js';
import { exclusive, permits, shared } from '../../../libs/distributed-lock/src/lock/request/key-claim.js';
import type { Asking, ClaimPlan } from '../plan/plan.js';

/** How a call asks for one of its keys: by the claim of the key, or by its options. */
export function claimPlanOf({ claims, options }: Pick<Asking, 'claims' | 'options'>, key: string): ClaimPlan {
  return claims?.[key] ?? options;
}

/** The keys of a call as the library takes them. @param texts what stands for each key, such as its template */
export function claimedKeys(
  { keys, claims }: Asking,
  texts: readonly string[] = keys,
): readonly (string | KeyClaim)[] {
  return texts.map((text, i) => claimed(text, claims?.[keys[i] ?? '']));
}

function claimed(text: string, claim: ClaimPlan | undefined): string | KeyClaim {
  if (claim?.permits !== undefined) return permits(text, claim.permits, claim.weight);
  if (claim?.mode === undefined) return text;
  return claim.mode === 'shared' ? shared(text) : exclusive(text);
}
