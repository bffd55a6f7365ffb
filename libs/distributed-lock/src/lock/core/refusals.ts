import { LockStoreError, LockWaitTimeoutError } from '../../port/lock.errors.js';
import type { Call } from './call.js';
import type { LocalQueue } from './local-queue.js';
import type { LockRuntime } from './lock-runtime.js';

/** Remembers what the store answered last, other than a grant, and makes the errors of callers that leave a local queue without the lock. */
export class Refusals {
  /** From the last reply. A later failure of the store does not clear it. */
  private holder: { readonly owner: string | undefined; readonly expiresAt: number } | undefined;
  /** Set if the store has failed since its last reply. */
  private failure: LockStoreError | undefined;
  /**
   * The last answer counts for callers that began to wait at this time or earlier: when the request of the reply was sent, or when the
   * store failed.
   */
  private coversUntil = -Infinity;

  constructor(
    private readonly queue: Pick<LocalQueue, 'key' | 'holdingOwner'>,
    private readonly runtime: LockRuntime,
  ) {}

  onHolder(owner: string | undefined, remainingMs: number, askedAt: number): void {
    this.holder = { owner, expiresAt: this.runtime.clock.now() + remainingMs };
    this.failure = undefined;
    this.coversUntil = askedAt;
  }

  onFailure(error: LockStoreError): void {
    this.failure = error;
    this.coversUntil = this.runtime.clock.now();
  }

  onGrant(): void {
    this.failure = undefined;
  }

  get isStoreFailing(): boolean {
    return this.failure !== undefined;
  }

  /** Whether the store has answered since this call began to wait. */
  isAnswered({ waitingSince }: Call): boolean {
    return waitingSince <= this.coversUntil;
  }

  /**
   * The error of a call whose `waitMs` is over: a `LockStoreError` if the store has failed since its last reply, or if it has not replied and
   * no owner of this queue has the lock.
   */
  timeoutError(call: Call): LockStoreError | LockWaitTimeoutError {
    const { queue, failure } = this;
    const { key } = queue;
    if (!failure && (this.holder || queue.holdingOwner)) return this.busyError(call);
    const why = failure?.message ?? 'The store has not answered yet.';
    const message = `Could not acquire "${key}" within ${call.request.terms.waitMs} ms. ${why}`;
    return new LockStoreError(message, key, failure?.reason ?? 'unknown', failure && { cause: failure });
  }

  /**
   * Adds to the error of a call that has timed out who holds the lock. Never rejects, and takes `NAME_WITHIN_MS` at most.
   *
   * @returns `undefined` if the error names no owner, or the store does not know owners by name
   */
  nameHolder(error: LockStoreError | LockWaitTimeoutError): Promise<LockWaitTimeoutError> | undefined {
    const { holderDirectory } = this.runtime;
    if (!(error instanceof LockWaitTimeoutError)) return undefined;
    const { holder, waitMs, remainingMs, position } = error;
    if (holder === undefined || !holderDirectory.mayKnow(holder)) return undefined;
    const { key } = this.queue;
    return holderDirectory
      .findSoon(holder)
      .then(
        (heldBy) => new LockWaitTimeoutError(key, waitMs, holder, remainingMs, heldBy, undefined, position),
      );
  }

  /** @param waiting how many wait ahead of the caller, if `maxWaiting` is the reason for the refusal */
  busyError({ request, place }: Call, waiting?: number): LockWaitTimeoutError {
    const { key, holdingOwner } = this.queue;
    const { waitMs } = request.terms;
    const told = this.holder;
    // If an owner of this queue has the lock, its id and validity are newer than what the store last replied.
    const holder = holdingOwner ? holdingOwner.id : told?.owner;
    const remainingMs = holdingOwner
      ? holdingOwner.validForMs
      : told && Math.max(0, told.expiresAt - this.runtime.clock.now());
    return new LockWaitTimeoutError(key, waitMs, holder, remainingMs, undefined, waiting, place?.position);
  }
}
