import { sync } from './client/requests.js';
import type { ZookeeperSession } from './client/session.js';
import type { Clock } from '../../time/clock.js';

/**
 * A session has at least so many round trips. Of its length a holder may count on less than three round trips and half of
 * the session (see `LeaderKnowledge`), so that two are left here.
 */
export const ROUND_TRIPS_PER_SESSION = 10;
/** A longer session is asked for with so much more, as the way is not always as long. */
const HEADROOM = 1.2;
const MOST_ASKED = 2;

export interface NeededLength {
  readonly roundTripMs: number;
  readonly askedMs: number;
}

interface Measured {
  readonly clock: Clock;
  readonly session: ZookeeperSession;
  readonly sessionMs: number;
  /** How long one request took. */
  readonly roundTripMs: number;
}

/**
 * The length that a session needs for the way to its servers. A server may be slow for a moment, so the shortest of several
 * round trips counts.
 *
 * @returns `undefined` when `sessionMs` is enough
 */
export async function neededLength({
  clock,
  session,
  sessionMs,
  roundTripMs,
}: Measured): Promise<NeededLength | undefined> {
  let shortestMs = roundTripMs;
  for (let asked = 0; shortestMs * ROUND_TRIPS_PER_SESSION > sessionMs; asked++) {
    const askedMs = Math.ceil(shortestMs * ROUND_TRIPS_PER_SESSION * HEADROOM);
    if (asked === MOST_ASKED) return { roundTripMs: shortestMs, askedMs };
    const sentAt = clock.now();
    await session.send(sync('/'));
    shortestMs = Math.min(shortestMs, clock.now() - sentAt);
  }
  return undefined;
}
