import type { CrowdState } from './crowd.service.js';

/** One snapshot that the page draws. The database's clock gives the times, in ms. */
export interface View {
  readonly at: number;
  /** The instance that this page comes from. */
  readonly instance: number;
  /** The running instances, and the killed ones that still hold a lock, in the order of their numbers. */
  readonly instances: readonly ViewInstance[];
  readonly goods: readonly ViewGoods[];
  /** The latest, oldest first. Consecutive views repeat some of them, with the same ids. */
  readonly sections: readonly Section[];
  readonly crowd: CrowdState | null;
}

export interface ViewInstance {
  readonly id: number;
  readonly url: string;
  readonly isAlive: boolean;
}

export interface ViewGoods extends StockedGoods {
  /** `null`: the store of the locks did not reply. */
  readonly lock: ViewLock | null;
}

export interface StockedGoods {
  readonly id: number;
  readonly name: string;
  readonly stock: number;
  readonly offered: number;
  readonly orders: number;
}

export interface ViewLock {
  readonly isHeld: boolean;
  /** The instance that holds the lock; `null` when it is free, or held by a process that is no instance. */
  readonly holder: number | null;
  /** The rest of the lease. Unless the holder renews it, the next owner in the queue gets the lock after that time. */
  readonly leaseLeftMs: number;
  readonly fencingToken: number | null;
  /** The instances in the queue, in order. Each may have several callers. */
  readonly queue: readonly (number | null)[];
}

/** The critical section of one order: from reading its stock to writing it. */
export interface Section {
  readonly id: number;
  readonly goodsId: number;
  readonly instance: number;
  readonly fence: number;
  readonly from: number;
  readonly to: number;
}
