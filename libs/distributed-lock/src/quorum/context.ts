import type { Chance, Clock } from '../common/clock.js';
import type { LockStore, Notification } from '../port/lock-store.js';
import { LockStoreError } from '../port/lock.errors.js';
import type { QuorumNodeState } from './store.js';

/** The state that the owners of one quorum store share. */
export interface QuorumContext {
  readonly nodes: readonly QuorumNode[];
  readonly majority: number;
  readonly clock: Clock;
  readonly chance: Chance;
  /** The largest `commandTimeoutMs` of the nodes' stores, in ms. */
  readonly nodeTimeoutMs: number;
  /** The largest fencing token that this process knows to be used. */
  minToken: number;
  nextAttempt(): number;
  /**
   * Makes a ticket, a time that the owner presents at all nodes so that their queues have the same order. If the clocks of processes
   * differ, a process whose clock is slow is served too early.
   */
  nextTicket(): number;
  notify(notification: Notification): void;
  /** Takes over work whose outcome no caller awaits. `close` waits until all of it has ended. */
  inBackground(work: Promise<unknown>): void;
}

/** True when a majority has answered, and each node that has not is known to be down. */
export function haveAnswered({ nodes, majority }: QuorumContext, outcomes: Outcomes<unknown>): boolean {
  const isSettled = nodes.every((node, i) => outcomes[i] !== undefined || node.isDown);
  return isSettled && answersOf(outcomes).length >= majority;
}

/** One of the stores, and whether it answers. */
export class QuorumNode {
  /** True after a failure. When a majority has answered, the quorum does not wait for such a node. */
  isDown = false;

  constructor(
    readonly store: LockStore,
    readonly number: number,
    private readonly onState: (state: QuorumNodeState) => void,
  ) {}

  /** Settles as the command does, and records in `isDown` whether the node has answered. */
  async watch<T>(command: Promise<T>): Promise<T> {
    try {
      const reply = await command;
      if (this.isDown) this.onState({ node: this.number, isUp: true });
      this.isDown = false;
      return reply;
    } catch (error) {
      // A refusal is an answer, and concerns one key only, so it does not count as a failure of the node.
      if (error instanceof LockStoreError && error.reason !== 'refused') {
        if (!this.isDown) this.onState({ node: this.number, isUp: false, error });
        this.isDown = true;
      }
      throw error;
    }
  }
}

/** One outcome for each node, in their order. `undefined` where the node has not answered yet. */
export type Outcomes<T> = readonly (PromiseSettledResult<T> | undefined)[];

/**
 * Collects outcomes until `isEnough` returns true for those collected so far, or until all are there. Never rejects.
 *
 * @param timeout calls `isEnough` one more time after this, with `isLate`; by default never
 */
export function gather<T>(
  asked: readonly Promise<T>[],
  isEnough: (outcomes: Outcomes<T>, isLate: boolean) => boolean,
  timeout?: { readonly clock: Clock; readonly ms: number },
): Promise<Outcomes<T>> {
  return new Promise((resolve) => {
    const outcomes: (PromiseSettledResult<T> | undefined)[] = asked.map(() => undefined);
    let isLate = false;
    const check = (): void => {
      if (outcomes.includes(undefined) && !isEnough(outcomes, isLate)) return;
      cancel?.();
      resolve([...outcomes]);
    };
    const cancel = timeout?.clock.after(timeout.ms, () => {
      isLate = true;
      check();
    });
    for (const [i, promise] of asked.entries()) {
      const settle = (outcome: PromiseSettledResult<T>): void => {
        outcomes[i] = outcome;
        check();
      };
      promise.then(
        (value) => settle({ status: 'fulfilled', value }),
        (reason: unknown) => settle({ status: 'rejected', reason }),
      );
    }
  });
}

export function answersOf<T>(outcomes: Outcomes<T>): T[] {
  return outcomes.flatMap((outcome) => (outcome?.status === 'fulfilled' ? [outcome.value] : []));
}

export function count<Kind>(replies: readonly { readonly kind: Kind }[], kind: NoInfer<Kind>): number {
  return replies.filter((reply) => reply.kind === kind).length;
}

/** The largest number that at least `least` of the values reach: of 3, 5 and 9 two reach 5. There must be that many values. */
export function reachedBy(least: number, values: readonly number[]): number {
  return values.toSorted((a, b) => b - a)[least - 1] as number;
}

/** The error if fewer nodes than a majority have answered. The message says which did not, and why. */
export function noMajorityError(
  { nodes, majority }: QuorumContext,
  outcomes: Outcomes<unknown>,
  key: string | undefined,
): LockStoreError {
  const failures = outcomes.flatMap((outcome, i) =>
    outcome?.status === 'rejected'
      ? [{ node: nodes[i] as QuorumNode, error: outcome.reason as unknown }]
      : [],
  );
  const answered = `${answersOf(outcomes).length} of ${nodes.length} nodes answered, ${majority} are needed`;
  const why = failures.map(({ node, error }) => `node ${node.number} (${node.store.name}): ${text(error)}`);
  const errors = failures.map(({ error }) => error);
  const cause = new AggregateError(errors, answered);
  return new LockStoreError([answered, why.join('; ')].filter(Boolean).join('. '), key, reasonOf(errors), {
    cause,
  });
}

export function ownerHasLeftError(key: string): LockStoreError {
  return new LockStoreError('Its caller has left', key, 'unknown');
}

/** Chooses the reason of the error for the caller. If even one node may have executed the request, the outcome is unknown. */
function reasonOf(errors: readonly unknown[]): LockStoreError['reason'] {
  const reasons = errors.map((error) => (error instanceof LockStoreError ? error.reason : 'refused'));
  if (reasons.every((reason) => reason === 'refused')) return 'refused';
  return (['unknown', 'unready'] as const).find((reason) => reasons.includes(reason)) ?? 'unreachable';
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
