import type { StoreFailure } from '../common/connection/store-error.js';

/** What an error of the database or of its client means for the requests that were sent. */
export interface Failure extends StoreFailure {
  /** `unknown`: the connection is lost, and nobody knows whether the statement was executed. */
  readonly reason: 'unknown' | 'unready' | 'refused';
  /** The statement was rolled back for certain, and may succeed when it is sent again. */
  readonly mayRepeat?: boolean;
  /** Another transaction holds a row: a request on it is sent again after all others, so that they do not wait for that row. */
  readonly isBlocked?: boolean;
  /** Of several requests in one statement one may be to blame: each is sent again alone. */
  readonly mayBeOne?: boolean;
  /** The connection is of no more use. */
  readonly isFatal?: boolean;
}
