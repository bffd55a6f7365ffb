import type { History, HoldRecord } from '../history/history.js';
import { lostLeaseOf, type Loss } from '../history/loss.js';
import type { Span } from './belief.js';

/** Servers count in whole ms. */
const SLACK_MS = 2;

/**
 * docs/guarantees.md, after a loss of data: another may hold beside one whose lease the servers have lost, from the end of what
 * they kept of it to the end of what they lost. A watchdog is told by its next renewal.
 *
 * @param toldWithinMs of the loss, while nothing else is disturbed
 */
export function isLost(history: History, hold: HoldRecord, span: Span, toldWithinMs = Infinity): boolean {
  const isTold = hold.leaseMs === undefined && !hold.call.includes('.');
  return (history.losses ?? []).some((loss) => {
    const lease = lostLeaseOf(loss, hold);
    if (!lease || loss.isGuarded) return false;
    const isInTime =
      !isTold || span.to <= loss.to + toldWithinMs || isDisturbed(history, hold, loss, span.to);
    const from = Math.max(loss.at, lease.keptUntil);
    return isInTime && span.from >= from - SLACK_MS && span.to <= lease.until + SLACK_MS;
  });
}

/** By anything but the loss itself. */
function isDisturbed({ disturbances, pauses }: History, { process }: HoldRecord, loss: Loss, to: number) {
  return (
    pauses.some((it) => it.process === process && it.from <= to && it.to >= loss.at) ||
    disturbances.some((it) => it.at !== loss.at && it.at <= to && Math.max(it.at, it.to) >= loss.at)
  );
}
