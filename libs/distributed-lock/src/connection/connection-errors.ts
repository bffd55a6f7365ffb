import { LockConfigurationError, LockStoreError } from '../port/lock.errors.js';

const OUTCOME = {
  unknown: 'did not answer',
  unready: 'is not ready',
  refused: 'refused',
  unreachable: 'could not be reached',
} as const;

/** Makes the errors of requests to one back end. */
export class ConnectionErrors {
  /** Why the last connection ended or could not be opened. Absent while a connection is open. */
  last: { readonly failure: StoreFailure; readonly error: unknown } | undefined;

  /**
   * @param server name of the back end in messages, such as `PostgreSQL`
   * @param address host and port of the server, without user and password
   */
  constructor(
    private readonly server: string,
    private readonly address?: string,
  ) {}

  of(failure: StoreFailure, key: string | undefined, cause?: unknown): Error {
    if (cause instanceof LockConfigurationError) return cause;
    return storeError(this.server, failure, { key, cause });
  }

  /** Makes the error of a request that was never sent. @param what the reason, in the words of the message: `no connection` */
  unsent(what: string, key: string | undefined): Error {
    const { last } = this;
    return last?.error instanceof LockConfigurationError ? last.error : this.noConnection(what, key);
  }

  noConnection(what: string, key?: string): LockStoreError {
    const { last, server, address } = this;
    const where = address === undefined ? server : `${server} at ${address}`;
    if (last?.failure.reason === 'refused' || last?.failure.reason === 'unready') {
      return storeError(where, last.failure, { key, cause: last.error });
    }
    const detail = last
      ? `${what} (last error: ${last.failure.detail})`
      : `${what}, and no answer that says why. Is it ${server} that listens there, and does it speak TLS exactly if the target does? Other servers and firewalls may be silent`;
    return storeError(where, { reason: 'unreachable', detail }, { key, cause: last?.error });
  }

  /** Makes the error of a request that `close` has ended. @param reason `unknown` if the back end may have executed the request */
  closed(key: string | undefined, reason: 'unreachable' | 'unknown' = 'unreachable'): LockStoreError {
    return storeError(this.server, { reason, detail: 'the store is closed' }, { key });
  }
}

/** @param server the name of the back end for messages: `PostgreSQL` */
export function storeError(
  server: string,
  { reason, detail, isAnswered = false }: StoreFailure,
  { key, cause }: { readonly key?: string | undefined; readonly cause?: unknown } = {},
): LockStoreError {
  const outcome = OUTCOME[isAnswered ? 'unready' : reason];
  return new LockStoreError(`${server} ${outcome}: ${detail}`, key, reason, { cause });
}

/** The same error with the reason `unknown`, which makes the core release the owner, in case the store did execute the request. */
export function asUnknownError(error: LockStoreError): LockStoreError {
  if (error.reason === 'unknown') return error;
  return new LockStoreError(error.message, error.key, 'unknown', { cause: error });
}

const NO_TLS =
  /SSL routines:.*(wrong version number|packet length too long)|before secure TLS connection was established/;
const UNTRUSTED = /self[- ]signed certificate|unable to (verify the first|get local issuer) certificate/;

/** The text of an error, for messages. Under Jest it may come from another realm, where `instanceof Error` is false. */
export function textOf(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('message' in error)) return String(error);
  const { message, code, name } = error as NodeJS.ErrnoException;
  const text = message || (code ?? name);
  const [withoutTls, detail = 'it closed the connection'] = NO_TLS.exec(text) ?? [];
  if (withoutTls !== undefined) return `what answers there speaks no TLS (${detail})`;
  if (UNTRUSTED.test(text))
    return `${text}: give the certificate of its authority as ca in the options for TLS`;
  return text;
}

export interface StoreFailure {
  /** `unreachable`: the request was not sent. `unready`, `refused`: it was not executed. `unknown`: it may have been, or may still be. */
  readonly reason: keyof typeof OUTCOME;
  /** Says what happened and what to do about it, without secrets. */
  readonly detail: string;
  /** The server did reply, so it will not execute the request later. */
  readonly isAnswered?: boolean;
}
