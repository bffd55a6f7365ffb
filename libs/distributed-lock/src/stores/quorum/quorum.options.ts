import { describeGiven } from '../../options/describe-given.js';
import { LockConfigurationError, type LockStoreError } from '../../port/lock.errors.js';
import type { LockStoreFactory } from '../../port/lock-store.js';
import { checkOptionNames, type OptionNames } from '../../options/option-names.js';

/** Options of `quorumStore`. */
export interface QuorumStoreOptions {
  /**
   * Called when a node stops answering, and when it answers again. While a majority answers, no lock notices the difference.
   * Runs during hand-offs, in the async context of `quorumStore(…)`, so be quick. An error that it throws is ignored.
   */
  readonly onNode?: (state: QuorumNodeState) => void;
}

/** Whether one node of a quorum can be reached. */
export interface QuorumNodeState {
  /** 1 for the first store of the list. */
  readonly node: number;
  readonly isUp: boolean;
  /** Why it is not up. */
  readonly error?: LockStoreError;
}

const FEWEST_NODES = 3;
const OPTION_NAMES: OptionNames<QuorumStoreOptions> = { onNode: true };

export function checkQuorumOptions(options: QuorumStoreOptions): void {
  checkOptionNames('quorumStore', options, OPTION_NAMES);
  if (options.onNode === undefined || typeof options.onNode === 'function') return;
  throw new LockConfigurationError(
    `onNode must be a function; it was given ${describeGiven(options.onNode)}.`,
  );
}

export function checkNodes(nodes: readonly LockStoreFactory[]): void {
  const isStore = (node: LockStoreFactory | undefined): boolean => typeof node?.create === 'function';
  if (!Array.isArray(nodes) || !nodes.every(isStore)) {
    const given = Array.isArray(nodes)
      ? `a list with ${describeGiven(nodes.find((node: LockStoreFactory) => !isStore(node)))} in it`
      : describeGiven(nodes);
    throw new LockConfigurationError(
      `quorumStore takes a list of stores such as [redisStore(a), redisStore(b), redisStore(c)]; it was given ${given}.`,
    );
  }
  if (nodes.length < FEWEST_NODES) {
    throw new LockConfigurationError(
      `A quorum takes ${FEWEST_NODES} nodes or more, an odd number of them; it was given ${nodes.length}. For one back end use its store as it is.`,
    );
  }
  if (new Set(nodes).size < nodes.length) {
    throw new LockConfigurationError(
      'A quorum was given one store twice: a node that grants twice would count double.',
    );
  }
}
