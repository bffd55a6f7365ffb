import { isLockError, type LockErrorCode } from '../port/lock.errors.js';

export interface AdminAnswer {
  readonly status: number;
  readonly body: object;
}

const STATUS: Partial<Record<LockErrorCode, number>> = {
  LOCK_CONFIGURATION: 400,
  LOCK_KEY: 400,
  LOCK_STORE: 503,
  LOCK_SHUTDOWN: 503,
};

/** The answer to a request that is refused. Operators read the message as it is. */
export function refusal(status: number, message: string, code?: LockErrorCode): AdminAnswer {
  return { status, body: { error: { status, code, message } } };
}

/** The answer that `work` gives, or that tells of its lock error. 501: the store cannot do that. Rethrows other errors. */
export async function answerOf(work: () => AdminAnswer | Promise<AdminAnswer>): Promise<AdminAnswer> {
  try {
    return await work();
  } catch (error) {
    if (!isLockError(error)) throw error;
    const { code, message, reason } = error as typeof error & { readonly reason?: string };
    return refusal(reason === 'refused' ? 501 : (STATUS[code] ?? 500), message, code);
  }
}
