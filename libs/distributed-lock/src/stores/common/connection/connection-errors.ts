import { LockConfigurationError, LockStoreError } from '../../../port/lock.errors.js';
import { storeError, type StoreFailure } from './store-error.js';

/** The errors of requests on a connection to one kind of server, and why there is no connection. */
export class ConnectionErrors {
  /** Of the last connection. Absent while one is open. */
  last: { readonly failure: StoreFailure; readonly error: unknown } | undefined;

  /** @param server the name of the back end for messages: `PostgreSQL` */
  constructor(private readonly server: string) {}

  /** The error of a request that has failed. */
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
