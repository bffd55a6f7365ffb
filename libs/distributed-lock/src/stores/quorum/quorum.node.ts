import { LockStoreError } from '../../port/lock.errors.js';
import type { LockStore } from '../../port/lock-store.js';
import type { QuorumNodeState } from './quorum.options.js';

/** One of the stores, and whether it answers. */
export class QuorumNode {
  /** True after a failure. The quorum does not wait for such a node once a majority has answered. */
  isDown = false;

  constructor(
    readonly store: LockStore,
    readonly number: number,
    private readonly onState: (state: QuorumNodeState) => void,
  ) {}

  /** Settles as the command does, and notes whether the node has answered. */
  async watch<T>(command: Promise<T>): Promise<T> {
    try {
      const reply = await command;
      if (this.isDown) this.onState({ node: this.number, isUp: true });
      this.isDown = false;
      return reply;
    } catch (error) {
      // A refusal is an answer about one key.
      if (error instanceof LockStoreError && error.reason !== 'refused') {
        if (!this.isDown) this.onState({ node: this.number, isUp: false, error });
        this.isDown = true;
      }
      throw error;
    }
  }
}
