import { KEY_EVICTED } from '../backends/redis/server-events.js';
import { askedSince } from '../history/asked-since.js';
import type { CallRecord, History, HoldRecord } from '../history/history.js';
import { isLost } from './lost-leases.js';

/**
 * docs/guarantees.md, fencing, after a loss of data: a process that has not learned of it hands the lost lock off with the tokens
 * that it has. And where the clock is behind as well, a process that has seen no larger token gets one of that clock.
 */
export function mayBeSmaller(history: History, a: HoldRecord, b: HoldRecord): boolean {
  if (isLost(history, b, { from: b.from, to: b.from })) return true;
  const { losses = [], disturbances } = history;
  const isSetBack = disturbances.some(({ kind, at }) => kind === 'server clock' && at <= b.from);
  // A server whose memory is full may have lost nothing but the tokens of its last grant.
  const isEvicted = disturbances.some(
    ({ kind, at }) => kind === KEY_EVICTED && at >= askedSince(history, a) && at <= b.from,
  );
  const isBehind =
    (isSetBack && isEvicted) || losses.some((loss) => loss.at <= b.from && (isSetBack || loss.isBehind));
  // Whoever attaches a lock goes on with the token that the process before it was given.
  return isBehind && !hasSeen(history, a.token, b.sharedFrom ?? b);
}

/** Before it asked, on any key. */
function hasSeen(history: History, token: number, b: HoldRecord): boolean {
  const { calls, holds } = history;
  const askedAt = calls.find((it) => it.call === b.call && it.process === b.process)?.askedAt ?? b.from;
  // One owner asks for all callers of its process.
  const ownAsked = calls
    .filter((it) => it.process === b.process && it.keys.includes(b.key) && isUnderWay(it, askedAt))
    .map((it) => it.askedAt);
  const before = Math.min(askedAt, ...ownAsked);
  const client = clientOf(b.owner);
  return holds.some((it) => it.token >= token && it.from < before && clientOf(it.owner) === client);
}

function isUnderWay({ askedAt, settledAt = Infinity }: CallRecord, at: number): boolean {
  return askedAt <= at && settledAt >= at;
}

function clientOf(owner: string | undefined): string | undefined {
  return owner?.slice(0, owner.lastIndexOf(':'));
}
