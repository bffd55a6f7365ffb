import type { Backend, StoreOptions } from '../backends/backend.js';
import type { Latency } from '../network/network.js';
import type { Plan } from './plan.js';

/** Of the process that is farthest from the servers. */
export function longestLatency({ latency: { least, spread }, processes }: Plan): Latency {
  return { least: least + Math.max(...processes.map(({ farMs = 0 }) => farMs)), spread };
}

/** Of one request of that process, while nothing is disturbed. */
export function longestRoundTripMs(plan: Plan, { betweenServersMs }: Backend): number {
  const { least, spread } = longestLatency(plan);
  return 2 * (least + spread) + (betweenServersMs?.(plan.storeOptions) ?? 0);
}

/** The longest time for which a key may stay taken when its holder is gone: of all leases, minimum holds and guards. */
export function longestLeaseMs({
  calls,
  onces,
  faults,
  processes,
  storeOptions,
  watchdogTimeoutMs,
}: Plan): number {
  const further = faults.flatMap(({ act }) => (act.do === 'call' ? [act.call] : []));
  return longestOf(
    { calls, onces, further, processes, storeOptions },
    /"(?:leaseMs|holdAtLeastMs|ms|restartGuardMs)":(\d+)/g,
    Math.max(watchdogTimeoutMs, longestSessionMs(storeOptions)),
  );
}

/** So much later a leader may hear of a session from a server that follows it, as a part of the session's length. */
const HEARD_LATE = 1 / 4;

function longestSessionMs({ mostSessionMs = 0 }: StoreOptions): number {
  return Number(mostSessionMs) * (1 + HEARD_LATE);
}

/** A key is free so long after a release at the latest. */
export function longestMinimumHoldMs({ calls, processes }: Plan): number {
  return longestOf({ calls, processes }, /"holdAtLeastMs":(\d+)/g, 0);
}

/** The shortest lease that a call asks for. */
export function shortestLeaseMs({ calls, onces, processes, watchdogTimeoutMs }: Plan): number {
  const leases = [...JSON.stringify({ calls, onces, processes }).matchAll(/"leaseMs":(\d+)/g)].map(([, ms]) =>
    Number(ms),
  );
  return Math.min(watchdogTimeoutMs, ...leases);
}

/** The longest time in which nothing may move: of all leases, works and pauses. */
export function longestMs({
  calls,
  faults,
  candidates,
  processes,
  storeOptions,
  watchdogTimeoutMs,
}: Plan): number {
  const names = /"(?:leaseMs|holdAtLeastMs|ms|afterMs|restartGuardMs)":-?(\d+)/g;
  const works = calls.map(({ work }) => sumOf(JSON.stringify(work).matchAll(/"ms":(\d+)/g)));
  return Math.max(
    longestOf({ calls, faults, candidates, processes, storeOptions }, names, watchdogTimeoutMs),
    longestSessionMs(storeOptions),
    ...works,
  );
}

function sumOf(matches: Iterable<RegExpMatchArray>): number {
  return [...matches].reduce((sum, [, ms]) => sum + Number(ms), 0);
}

/** What the clocks of servers are set back: leases last for so much longer. */
export function setBackMs({ faults }: Plan): number {
  return faults.reduce(
    (sum, { act }) => sum + ('server' in act && 'ms' in act && act.ms < 0 ? -act.ms : 0),
    0,
  );
}

function longestOf(part: object, names: RegExp, least: number): number {
  return Math.max(least, ...[...JSON.stringify(part).matchAll(names)].map(([, ms]) => Number(ms)));
}
