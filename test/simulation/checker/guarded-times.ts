import { LockShutdownError } from '../../../libs/distributed-lock/src/port/lock.errors.js';
import type { History } from '../history/history.js';

/** A request is repeated so often while no server can be reached. */
const RECHECK_MS = 1000;

/**
 * docs/guarantees.md, after a loss of data: a server that lost its data grants nothing for `guardMs`. It notices the loss with the
 * first request for a lock that it gets, so that this time begins there, however long nobody asks.
 */
export function guardedTimes(
  { losses = [], calls }: History,
  guardMs: number,
): readonly { readonly from: number; readonly to: number }[] {
  return losses
    .filter(({ isGuarded }) => isGuarded)
    .map(({ at, to }) => {
      // A service that closes asks no server.
      const asked = calls.filter(
        ({ settledAt = Infinity, error }) => settledAt > to && !(error instanceof LockShutdownError),
      );
      const first = Math.min(...asked.map(({ askedAt }) => Math.max(askedAt, to)));
      return { from: at, to: first + guardMs + RECHECK_MS };
    });
}
