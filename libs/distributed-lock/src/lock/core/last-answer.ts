import { LockStoreError, LockWaitTimeoutError } from '../../port/lock.errors.js';
import type { Clock } from '../../time/clock.js';
import type { Owner } from './owner.js';
import type { Terms } from '../request/lock-request.js';

/**
 * The last news of the store about one key: who holds it, or that the store failed. Callers that stop waiting are told this.
 * The next owner of a local queue starts with this holder, and without the failure.
 */
export class LastAnswer {
  error: LockStoreError | undefined;
  private holder: { readonly owner: string | undefined; readonly expiresAt: number } | undefined;
  private coversUntil = -Infinity;

  constructor(
    private readonly key: string,
    private readonly clock: Clock,
    /** The owner of this process that holds the lock. The store need not have named it. */
    private readonly localHolder: () => Owner | undefined,
  ) {}

  onHolder(owner: string | undefined, remainingMs: number, askedAt: number): void {
    this.holder = { owner, expiresAt: this.clock.now() + remainingMs };
    this.coversUntil = askedAt;
    this.error = undefined;
  }

  onError(error: LockStoreError): void {
    this.coversUntil = this.clock.now();
    this.error = error;
  }

  /** Whether the answer is new enough for a caller that has waited since then. */
  covers(waitingSince: number): boolean {
    return waitingSince <= this.coversUntil;
  }

  /** The error of a caller whose wait is over, even if the store has not answered since it began to wait. */
  timeout(terms: Terms): Error {
    const { error: cause, key } = this;
    if (!cause && this.holderNow()) return this.busy(terms);
    const why = cause?.message ?? 'The store has not answered yet.';
    const message = `Could not acquire "${key}" within ${terms.waitMs} ms. ${why}`;
    return new LockStoreError(message, key, cause?.reason ?? 'unknown', cause && { cause });
  }

  /** @param waiting how many wait ahead of the caller, if it is refused for that */
  busy({ waitMs }: Terms, waiting?: number): LockWaitTimeoutError {
    const { owner, remainingMs } = this.holderNow() ?? {};
    return new LockWaitTimeoutError(this.key, waitMs, owner, remainingMs, undefined, waiting);
  }

  private holderNow(): { readonly owner: string | undefined; readonly remainingMs: number } | undefined {
    const { holder } = this;
    const local = this.localHolder();
    if (local) return { owner: local.id, remainingMs: local.validForMs };
    return holder && { owner: holder.owner, remainingMs: Math.max(0, holder.expiresAt - this.clock.now()) };
  }
}
