import {
  checkClaims,
  describeCases,
  type ContractDeviations,
} from '../../libs/distributed-lock/src/testing/lock-store.contract.js';
import type { StoreUnderTest } from '../../libs/distributed-lock/src/testing/contract/stage.js';

/**
 * The cases whose answer depends on what the back end does itself: it ends leases, counts tokens, compares names, notifies,
 * and decides between two who ask at once. All other cases try what the store decides in the process, which is the same on
 * each set-up of one kind of back end. A set-up on which the whole contract does not run must pass these.
 */
const BACK_END_CASES: ReadonlySet<string> = new Set([
  'a key that is held is busy for every other owner',
  'of many that ask at once exactly one is granted',
  'a lease that nobody renews ends by itself',
  'the successor of an expired holder can release, and the expired holder cannot',
  'a waiter is granted when the lease of a holder that crashed is over',
  'a renewed lock outlives its first lease',
  'a renewal that arrives after expiry reports lost and does not bring the lock back',
  'the release of the holder frees the key at once',
  'a minimum hold outlives the lease',
  'tokens grow with each grant, also with many in one millisecond',
  'tokens grow across the crash of a holder',
  'the order of asking is the order of granting',
  'a waiter whose client is gone is passed over',
  'the release of the holder notifies the next in the queue of its grant',
  'the holder is told when the key becomes contended, and again by a recheck',
  'a snapshot tells the holder, its lease and token, and who waits, in order',
  'what a client tells of itself is read by the others as it was written, until its lease is over',
  'keys that are held or waited for are listed in pages, as inspect tells of them, and no others',
  'a forced release grants the next in the queue',
  'owners with negative tickets are granted before all others that wait, in order of their tickets',
  'a holder is told who takes its lock over, and still holds',
  'a writer waits for the last reader, and no longer',
  'of many that ask at once exactly as many as there are permits are granted',
  'a key may consist of any characters',
  'keys that differ in one character or in length only are different locks',
  'a client that closes disturbs no other',
]);

/** The cases of the contract that reach the back end: for one more set-up of a store that keeps the whole contract elsewhere. */
export function describeBackEndCases(
  name: string,
  makeStore: () => StoreUnderTest | Promise<StoreUnderTest>,
  deviations: ContractDeviations = {},
): void {
  checkClaims(Object.fromEntries([...BACK_END_CASES].map((claim) => [claim, ''])));
  const title = `the lock store contract, as far as the back end decides: ${name}`;
  describeCases(title, makeStore, deviations, (claim) => BACK_END_CASES.has(claim));
}
