import type { CrowdState } from '../crowd/crowd.service.js';

/** The content of the page at one moment. Times are ms of the database's clock. */
export interface LiveView {
  readonly at: number;
  /** The instance that this page comes from. */
  readonly instance: number;
  /** The running instances, and the killed ones that still hold a lock, in the order of their numbers. */
  readonly instances: readonly LiveInstance[];
  readonly goods: readonly LiveGoods[];
  /** The latest, oldest first; a page that has seen some of them knows them by their ids. */
  readonly sections: readonly Section[];
  readonly crowd: CrowdState | null;
  /** `false` with `LOCK=off`. */
  readonly locked: boolean;
  /** Where the locks and the goods are, in a sentence. */
  readonly places: string;
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
  /** The instance that holds the lock; `null` when it is free, or held by a process that is no instance. */
  readonly holder: number | null;
  readonly isHeld: boolean;
  /** The rest of the lease: without a renewal the next owner in the queue gets the lock after it. 0 while the lock is free. */
  readonly leaseLeftMs: number;
  readonly fencingToken: number | null;
  /** The instances in the queue, in order. Each may have several callers. */
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
