import { LockStoreError } from '../../port/lock.errors.js';
import type { LockStore } from '../../port/lock-store.js';
import type { QuorumNodeState } from './quorum.options.js';

/** One of the stores, and whether it answers. */
export class QuorumNode {
  private failure: LockStoreError | undefined;

  constructor(
    readonly store: LockStore,
    readonly number: number,
    private readonly tell: (state: QuorumNodeState) => void,
  ) {}

  /** It failed the last time: not worth waiting for once the others have answered. */
  get isDown(): boolean {
    return this.failure !== undefined;
  }

  /** Passes the answer of a command on, and notes whether there was one. */
  async hear<T>(answer: Promise<T>): Promise<T> {
    try {
      const reply = await answer;
      this.onAnswer();
      return reply;
    } catch (error) {
      this.onFailure(error);
      throw error;
    }
  }

  onFailure(error: unknown): void {
    // A refusal is an answer: about one key.
    if (!(error instanceof LockStoreError) || error.reason === 'refused') return;
    const wasUp = !this.failure;
    this.failure = error;
    if (wasUp) this.tell({ node: this.number, isUp: false, error });
  }

  private onAnswer(): void {
    if (!this.failure) return;
    this.failure = undefined;
    this.tell({ node: this.number, isUp: true });
  }
}
