import type { Chance } from '../../time/chance.js';
import type { LockStore } from '../../port/lock-store.js';

/**
 * Digits in the number of an attempt: the quorum's client, the owner's count, which may have more, and the attempt. Attempts
 * start anew after a billion, when no message of the earlier one with the same number is under way any more.
 */
const DIGITS = { client: 4, count: 7, attempt: 9 };
const ATTEMPT = new RegExp(`:(-?)((\\d{${DIGITS.client}})(\\d{${DIGITS.count},}))\\d{${DIGITS.attempt}}$`);

/**
 * For messages, `inspect` and introductions only. Two clients may get the same one, because the id of an attempt at a node
 * begins with the id of the node's own client.
 */
export function newQuorumId(chance: Chance): string {
  const smallest = 10 ** (DIGITS.client - 1);
  return `quorum-${smallest + Math.floor(chance.random() * 9 * smallest)}`;
}

/**
 * The id of an owner's attempt at one node. It begins with the id of the node's own client, which receives its
 * notifications. The number names the owner, so that it can be recognised at every node, and the attempt, so that a late
 * command of an earlier attempt cannot touch a later one.
 */
export function attemptId(node: LockStore, owner: string, attempt: number): string {
  const number = String(attempt % 10 ** DIGITS.attempt).padStart(DIGITS.attempt, '0');
  return `${node.clientId}:${ownerNumberOf(owner)}${number}`;
}

/** The owner to which this attempt belongs. A foreign client keeps its own name. */
export function ownerOf(attempt: string): string {
  const [, keeper, , client, count] = ATTEMPT.exec(attempt) ?? [];
  return client === undefined ? attempt : `quorum-${client}:${keeper}${BigInt(count ?? 0)}`;
}

/** The same number for an owner and for all its attempts. */
export function ownerNumberOf(owner: string): string {
  const [client = '', count = ''] = owner.slice(owner.indexOf('-') + 1).split(':');
  return client + count.padStart(DIGITS.count, '0');
}

export function numberOfAttempt(attempt: string): string {
  return ATTEMPT.exec(attempt)?.[2] ?? '';
}
