import { LockStoreError } from '../../port/lock.errors.js';
import type { QuorumNode } from './quorum.node.js';
import { answersOf, majorityOf, type Outcomes } from './majority.js';

/** Fewer nodes than a majority have answered. The message says which did not, and why. */
export function noMajority(
  nodes: readonly QuorumNode[],
  outcomes: Outcomes<unknown>,
  key: string | undefined,
): LockStoreError {
  const failures = outcomes.flatMap((outcome, i) =>
    outcome?.status === 'rejected'
      ? [{ node: nodes[i] as QuorumNode, error: outcome.reason as unknown }]
      : [],
  );
  const answered = `${answersOf(outcomes).length} of ${nodes.length} nodes answered, ${majorityOf(nodes.length)} are needed`;
  const why = failures.map(({ node, error }) => `node ${node.number} (${node.store.name}): ${text(error)}`);
  const errors = failures.map(({ error }) => error);
  const cause = new AggregateError(errors, answered);
  return new LockStoreError([answered, why.join('; ')].filter(Boolean).join('. '), key, reasonOf(errors), {
    cause,
  });
}

/** Three nodes with two permits each have six. An owner needs one at two nodes, so three owners could hold where two may. */
export function noPermits(key: string): LockStoreError {
  const message = `A quorum cannot count permits: a majority of its nodes would let more in than there are. Take permits of "${key}" from a single store.`;
  return new LockStoreError(message, key, 'refused');
}

export function ownerHasLeft(key: string): LockStoreError {
  return new LockStoreError('Its caller has left', key, 'unknown');
}

export function tokensTooFarApart(key: string): LockStoreError {
  const message = 'The nodes count too differently for a common fencing token';
  return new LockStoreError(message, key, 'unready');
}

/** The reason for the caller. One node that may have acted makes the outcome unknown. */
function reasonOf(errors: readonly unknown[]): LockStoreError['reason'] {
  const reasons = errors.map((error) => (error instanceof LockStoreError ? error.reason : 'refused'));
  if (reasons.every((reason) => reason === 'refused')) return 'refused';
  return (['unknown', 'unready'] as const).find((reason) => reasons.includes(reason)) ?? 'unreachable';
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
