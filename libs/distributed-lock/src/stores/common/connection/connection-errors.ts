import { LockConfigurationError, LockStoreError } from '../../../port/lock.errors.js';

const OUTCOME = {
  unknown: 'did not answer',
  unready: 'is not ready',
  refused: 'refused',
  unreachable: 'could not be reached',
} as const;

/** The errors of requests on a connection to one kind of server, and why there is no connection. */
export class ConnectionErrors {
  /** Why the last connection ended, or could not be opened. Absent while a connection is open. */
  last: { readonly failure: StoreFailure; readonly error: unknown } | undefined;

  /** @param server the name of the back end for messages: `PostgreSQL` */
  constructor(private readonly server: string) {}

  of(failure: StoreFailure, key: string | undefined, cause?: unknown): Error {
    if (cause instanceof LockConfigurationError) return cause;
    return storeError(this.server, failure, key, cause);
  }

  /** The error of a request that was never sent. */
  unsent(what: string, key: string | undefined): Error {
    const { last } = this;
    return last?.error instanceof LockConfigurationError ? last.error : this.noConnection(what, key);
  }

  noConnection(what: string, key?: string): LockStoreError {
    const { last } = this;
    if (last?.failure.reason === 'refused' || last?.failure.reason === 'unready') {
      return storeError(this.server, last.failure, key, last.error);
    }
    const detail = last ? `${what} (last error: ${last.failure.detail})` : what;
    return storeError(this.server, { reason: 'unreachable', detail }, key, last?.error);
  }

  /** @param reason `unknown` for a request that may have been executed */
  closed(key: string | undefined, reason: 'unreachable' | 'unknown' = 'unreachable'): LockStoreError {
    return storeError(this.server, { reason, detail: 'the store is closed' }, key);
  }
}

/** @param server the name of the back end for messages: `PostgreSQL` */
export function storeError(
  server: string,
  failure: StoreFailure,
  key: string | undefined,
  cause?: unknown,
): LockStoreError {
  const { reason, detail, isAnswered = false } = failure;
  const outcome = OUTCOME[isAnswered ? 'unready' : reason];
  return new LockStoreError(`${server} ${outcome}: ${detail}`, key, reason, { cause });
}

/** The text of an error. Some errors of sockets have only a code. An error of another realm, as under Jest, is no `Error` of this one. */
export function textOf(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('message' in error)) return String(error);
  const { message, code, name } = error as NodeJS.ErrnoException;
  return message || (code ?? name);
}

/** What an error of a server or of its client means for the request that failed. */
export interface StoreFailure {
  /**
   * `unreachable`: it was not sent. `unready` and `refused`: it was not executed. `unknown`: it may have been, or may still
   * be.
   */
  readonly reason: keyof typeof OUTCOME;
  /** What happened and what to do, without values of the connection. */
  readonly detail: string;
  /** The server has answered an `unknown` request, so that it is not executed later. */
  readonly isAnswered?: boolean;
}
