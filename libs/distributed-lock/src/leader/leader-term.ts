import { LossController } from '../lock/core/loss-controller.js';
import type { Lock } from '../lock/lock.js';
import type { LockEvent } from '../lock/events/lock.events.js';
import { inspectByJson } from '../redaction/inspect-by-json.js';
import type { Term } from './leader.js';

/** The term of a candidate that has its lock, and the work that is done in it. */
export class LeaderTerm implements Term {
  /** Resolves when the term is over. Its work may still run. */
  readonly over: Promise<Demotion>;
  private readonly controller = new LossController();
  private isOver = false;
  private resolveOver: (reason: Demotion) => void = () => undefined;
  private underWay = 0;
  private readonly waiting: (() => void)[] = [];

  constructor(
    readonly name: string,
    readonly since: Date,
    private readonly lock: Lock,
  ) {
    this.over = new Promise((resolve) => (this.resolveOver = resolve));
    this.endWith(lock.shutdownSignal, 'shutdown');
    this.endWith(lock.signal, 'lost');
  }

  get key(): string {
    return this.lock.key;
  }

  get fencingToken(): number {
    return this.lock.fencingToken;
  }

  get signal(): AbortSignal {
    // Reading the lock shows a loss that no timer has noticed, and that aborts the signal of this term.
    if (!this.isOver && this.lock.signal.aborted) this.end('lost', this.lock.signal.reason as Error);
    return this.controller.signal;
  }

  /** True while the term is not over and its lease is valid. */
  get isHeld(): boolean {
    return !this.isOver && this.lock.validForMs > 0 && !this.isOver;
  }

  /** @param cause the reason of `signal` @returns false from the second time on, when it does nothing */
  end(reason: Demotion, cause: Error): boolean {
    if (this.isOver) return false;
    this.isOver = true;
    this.resolveOver(reason);
    this.controller.abort(cause);
    return true;
  }

  /**
   * Runs `work` in an async flow that holds the lock. Settles as `work` does.
   *
   * @returns `undefined`, without running it, if the term is over
   */
  async run<T>(work: () => T | Promise<T>): Promise<T | undefined> {
    let hasBegun = false;
    const begin = (): T | Promise<T> | undefined => {
      if (this.isOver) return undefined;
      hasBegun = true;
      return work();
    };
    try {
      return await this.follow(() => this.lock.run(begin));
    } catch (error) {
      if (hasBegun) throw error;
      return undefined;
    }
  }

  /** Counts `work` as work of this term until it settles. Settles as `work` does. */
  async follow<T>(work: () => T | Promise<T>): Promise<T> {
    this.underWay += 1;
    try {
      return await work();
    } finally {
      this.underWay -= 1;
      if (this.underWay === 0) for (const resolve of this.waiting.splice(0)) resolve();
    }
  }

  /** Resolves when no work of this term runs any more. */
  async settled(): Promise<void> {
    if (this.underWay > 0) await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  /** For logs. Leaves out the lock. */
  toJSON(): object {
    const { name, key, fencingToken, since } = this;
    return { name, key, fencingToken, since };
  }

  private endWith(signal: AbortSignal, reason: Demotion): void {
    const end = (): boolean => this.end(reason, signal.reason as Error);
    if (signal.aborted) end();
    else signal.addEventListener('abort', end, { once: true });
  }
}

export type Demotion = Extract<LockEvent, { readonly type: 'demoted' }>['reason'];

inspectByJson(LeaderTerm, 'Term');
