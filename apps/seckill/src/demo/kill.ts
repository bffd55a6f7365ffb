/** The fate of a lock whose holder was killed. */
export interface Kill {
  /** The number of the instance, as the page has it, and its process. */
  readonly instance: number;
  readonly pid: number;
  /** The rest of its lease when it was killed; of a session, the longest that it may have been. */
  readonly leaseLeftMs: number;
  /** The shortest that it may have been. */
  readonly leastLeftMs: number;
  /** How many other instances stood in the queue. */
  readonly waiting: number;
  /** The next holder; rejects when there is none long after the lease. */
  readonly next: Promise<NextHolder>;
}

export interface NextHolder {
  readonly instance: number | undefined;
  /** How long after `leaseLeftMs` was read it was seen to hold the lock. */
  readonly afterMs: number;
}
