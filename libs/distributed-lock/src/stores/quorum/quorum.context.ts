import type { LockStore, Notification } from '../../port/lock-store.js';
import type { Chance } from '../../time/chance.js';
import type { Clock } from '../../time/clock.js';
import { answersOf, gather, type Outcomes } from './majority.js';
import { noMajority } from './quorum.errors.js';
import type { QuorumNode } from './quorum.node.js';

/** The state that the owners of one quorum store share. */
export interface QuorumContext {
  readonly nodes: readonly QuorumNode[];
  readonly majority: number;
  readonly clock: Clock;
  readonly chance: Chance;
  /** The longest time in ms that the slowest node takes for one command. */
  readonly nodeTimeoutMs: number;
  /** The largest fencing token that this process knows to be used. */
  minToken: number;
  nextAttempt(): number;
  /** One ticket for all nodes, so that their queues have the same order. If the clocks of processes differ, the order is less fair. */
  nextTicket(): number;
  notify(notification: Notification): void;
  /** Runs work whose outcome no caller awaits. `close` waits for its end. */
  inBackground(work: Promise<unknown>): void;
}

/** True when a majority has answered, and each node that has not is known to be down. */
export function haveAnswered({ nodes, majority }: QuorumContext, outcomes: Outcomes<unknown>): boolean {
  const isSettled = nodes.every((node, i) => outcomes[i] !== undefined || node.isDown);
  return isSettled && answersOf(outcomes).length >= majority;
}

/**
 * Sends a command about a key to all nodes and collects the answers.
 *
 * @throws LockStoreError when fewer than a majority answer
 */
export async function askNodes<T>(
  context: QuorumContext,
  key: string,
  command: (store: LockStore) => Promise<T>,
): Promise<T[]> {
  return answersOf(await outcomesOf(context, key, (node) => node.watch(command(node.store))));
}

/**
 * Asks all nodes, and waits for those that are not known to be down.
 *
 * @throws LockStoreError when fewer than a majority answer
 */
export async function outcomesOf<T>(
  context: QuorumContext,
  key: string | undefined,
  ask: (node: QuorumNode, i: number) => Promise<T>,
): Promise<Outcomes<T>> {
  const { nodes, majority } = context;
  const outcomes = await gather(nodes.map(ask), (so) => haveAnswered(context, so));
  if (answersOf(outcomes).length < majority) throw noMajority(nodes, outcomes, key);
  return outcomes;
}
