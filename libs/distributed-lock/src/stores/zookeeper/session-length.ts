import { sync } from './client/requests.js';
import type { ZookeeperSession } from './client/session.js';
import type { Clock } from '../../time/clock.js';

/**
 * The least length of a session in round trips. A holder cannot count on half of the session and on three
 * round trips more (see `LeaderKnowledge`), so that two round trips are left for it.
 */
export const ROUND_TRIPS_PER_SESSION = 10;
/** The client asks for a longer session with this factor, because round trips vary. */
const HEADROOM = 1.2;
const MAX_ASKED = 2;

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
    if (asked === MAX_ASKED) return { roundTripMs: shortestMs, askedMs };
    const sentAt = clock.now();
    await session.send(sync('/'));
    shortestMs = Math.min(shortestMs, clock.now() - sentAt);
  }
  return undefined;
}
