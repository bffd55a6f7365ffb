import { LOOK_MS, SLACK_MS } from '../../constants.mjs';
import { idleSpans } from '../idle-spans.mjs';

/** A key that is wanted does not lie idle for longer than a look, or the trial allows; after a fault, than that allows. */
export function liveness(trial) {
  return keysOf(trial).flatMap((key) =>
    idleSpans(trial, key)
      .filter((span) => span.to > deadline(trial, span))
      .map(
        ({ from, to }) =>
          `"${key ?? 'any key'}": wanted, and nobody was let in for ${(to - from).toFixed(0)} ms from ${(from - trial.settings.at).toFixed(0)} ms on`,
      ),
  );
}

/** In the calm at the end each process that is there is served. */
export function service({ apps, calls, calmFrom, closingFrom }) {
  if (calmFrom === undefined) return [];
  const served = new Set(calls.filter(({ enteredAt }) => enteredAt > calmFrom).map(({ app }) => app));
  return [...apps.values()]
    .filter(
      ({ name, startedAt, endedAt }) => startedAt < calmFrom && endedAt > closingFrom && !served.has(name),
    )
    .map(({ name }) => `${name} was not served any more when all was well again`);
}

/** When the first one must be inside. */
function deadline({ faults, settings }, span) {
  const allowed = faults
    .filter(({ from, to, recoverMs }) => from <= span.to && span.from <= to + recoverMs)
    .map((fault) => Math.max(span.from, healedAt(fault)) + fault.recoverMs);
  const usualMs = settings.limits?.idleMs ?? LOOK_MS + SLACK_MS;
  return allowed.length > 0 ? Math.max(...allowed) : span.from + usualMs;
}

/** From when on a lock can be had again: at once, or when the store is back. */
function healedAt({ stopsStore, from, to }) {
  return stopsStore ? to : from;
}

/** After each fault and before the next, how long the slowest key lay idle, in ms from when it could be had. */
export function recoveries(trial) {
  const spans = keysOf(trial).flatMap((key) => idleSpans(trial, key));
  const ends = [...trial.faults.slice(1).map(({ from }) => from), Infinity];
  return trial.faults.map((fault, i) => {
    const healed = healedAt(fault);
    const until = Math.min(fault.to + fault.recoverMs, ends[i]);
    const found = spans.filter(({ from, to }) => to > healed && from < until);
    return Math.max(0, ...found.map(({ from, to }) => Math.min(to, ends[i]) - Math.max(from, healed)));
  });
}

/** A caller that waits for its second key keeps the first one from others, so all keys of such a call are judged as one. */
function keysOf({ calls, settings }) {
  return settings.workload === 'several-keys' ? [undefined] : [...new Set(calls.map(({ key }) => key))];
}
