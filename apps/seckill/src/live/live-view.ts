import type { CrowdState } from '../crowd/crowd.service.js';

/** What the page shows at one moment. Times are ms of the database's clock. */
export interface LiveView {
  readonly at: number;
  /** The instance that this page comes from. */
  readonly instance: number;
  /** Those that run, and those that were killed and still hold a lock, in the order of their numbers. */
  readonly instances: readonly LiveInstance[];
  readonly goods: readonly LiveGoods[];
  /** The latest, oldest first; a page that has seen some of them knows them by their ids. */
  readonly sections: readonly Section[];
  readonly crowd: CrowdState | null;
  /** `false` with `LOCK=off`. */
  readonly locked: boolean;
}

export interface LiveInstance {
  readonly id: number;
  readonly url: string;
  readonly isAlive: boolean;
}

export interface LiveGoods extends StockedGoods {
  /** `null`: the store of the locks did not answer. */
  readonly lock: LiveLock | null;
}

export interface LiveLock {
  /** The instance that holds it; `null`: nobody, or somebody whom we do not know. */
  readonly holder: number | null;
  readonly isHeld: boolean;
  /** When nobody renews it, the next in the queue goes on after this; 0 while the lock is free. */
  readonly leaseLeftMs: number;
  readonly fencingToken: number | null;
  /** The instances in line, in order; each may have several callers. */
  readonly line: readonly (number | null)[];
  /** How many callers wait, by the number of their instance. */
  readonly waiting: Readonly<Record<string, number>>;
}

export interface StockedGoods {
  readonly id: number;
  readonly name: string;
  readonly stock: number;
  readonly offered: number;
  readonly orders: number;
}

/** The critical section of one order: from the moment its stock was read to the one in which it was written. */
export interface Section {
  readonly id: number;
  readonly goodsId: number;
  readonly instance: number;
  readonly fence: number;
  readonly from: number;
  readonly to: number;
}
