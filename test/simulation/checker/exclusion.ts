import { isSleepHidden } from '../history/hidden-sleep.js';
import type { Disturbance, History, HoldRecord, Violation } from '../history/history.js';
import { mustBeTold } from '../history/told.js';
import { beliefOf, type Span } from './belief.js';
import { isLost } from './lost-leases.js';

/** docs/guarantees.md, safety: one lock, one holder that believes in it; no more permits than there are. */
export function checkExclusion(history: History, toldWithinMs?: number): readonly Violation[] {
  const beliefs = new Map(history.holds.map((hold) => [hold, beliefOf(hold, history)]));
  const violations: Violation[] = [];
  for (const [i, a] of history.holds.entries()) {
    for (const b of history.holds.slice(i + 1)) {
      if (a.key !== b.key || !conflicts(a, b) || isExcused(history, a, b)) continue;
      const both = overlapsOf(beliefs.get(a) ?? [], beliefs.get(b) ?? []).find(
        (span) => !isLost(history, a, span, toldWithinMs) && !isLost(history, b, span, toldWithinMs),
      );
      if (both) violations.push({ rule: 'exclusion', text: describe(a, b, both) });
    }
  }
  return [...violations, ...checkRegained(history, toldWithinMs), ...checkPermits(history, beliefs)];
}

/**
 * A holder does not believe in its lock again once another was granted it, and has believed in it. One that has lost it by force is
 * told of that by its next renewal.
 */
function checkRegained(history: History, toldWithinMs = Infinity): readonly Violation[] {
  const { holds } = history;
  return holds.flatMap((a) => {
    const later = holds.filter(
      (b) => b.key === a.key && b.from > a.from && b.call !== a.call && conflicts(a, b) && hasBelieved(b),
    );
    return later.slice(0, 1).flatMap((b) => {
      // Another may be one that joins a lock which was taken by force before this one was granted.
      const hasLost = (it: Disturbance) => isByForce(it, a, b) && it.at >= a.from && it.at <= b.from;
      const forcedAt = history.disturbances.find(hasLost)?.at;
      const isTold = (now: number) =>
        forcedAt !== undefined && mustBeTold(history, a, { since: forcedAt, now, withinMs: toldWithinMs });
      const again = a.samples.find(
        ({ at, validForMs }) => at > b.from && validForMs > 0 && (!isExcused(history, a, b) || isTold(at)),
      );
      if (!again) return [];
      const span = { from: again.at, to: again.at };
      // The other had a lock that the servers had lost by then, as a reader who joins one that has not been told yet.
      const isLostToo = isLost(history, b, { from: b.from, to: b.from });
      if (isLostToo || isLost(history, a, span) || isLost(history, b, span)) return [];
      if (isSleepHidden(history, a.process, again.at)) return [];
      const text = `call ${a.call} of ${a.process} believes in ${a.key} at ${Math.round(again.at)}, after it was granted to call ${b.call} of ${b.process}`;
      return [{ rule: 'exclusion', text }];
    });
  });
}

/** A caller that is let in after its process has stood still may have a lock that is over. */
function hasBelieved({ samples }: HoldRecord): boolean {
  return samples.some(({ validForMs }) => validForMs > 0);
}

export function conflicts(a: HoldRecord, b: HoldRecord): boolean {
  if (a.claim === 'permits' && b.claim === 'permits') return false;
  return a.claim !== 'shared' || b.claim !== 'shared';
}

/** A lock was taken by force, or servers that do not tell what they lost have forgotten it, while one of the two was held. */
export function isExcused({ disturbances, losses }: History, a: HoldRecord, b: HoldRecord): boolean {
  return disturbances.some(
    (it) => (it.kind === 'forget' && !losses && isNear(it, a, b)) || isByForce(it, a, b),
  );
}

function isByForce(it: Disturbance, a: HoldRecord, b: HoldRecord): boolean {
  return it.kind === 'force' && it.key === a.key && isNear(it, a, b);
}

function isNear({ at }: Disturbance, a: HoldRecord, b: HoldRecord): boolean {
  return at >= Math.min(a.from, b.from) - 5000 && at <= Math.max(a.from, b.from) + 5000;
}

function checkPermits(
  history: History,
  beliefs: ReadonlyMap<HoldRecord, readonly Span[]>,
): readonly Violation[] {
  const holds = history.holds.filter(({ claim }) => claim === 'permits');
  return holds.flatMap((hold) => {
    const [span] = beliefs.get(hold) ?? [];
    if (!span || history.disturbances.some(({ kind }) => kind === 'force')) return [];
    if (!history.losses && history.disturbances.some(({ kind }) => kind === 'forget')) return [];
    const inside = holds.filter(
      (other) =>
        other.key === hold.key &&
        // One that was granted later and names more permits counts by its own number.
        (other.token <= hold.token || other.permits <= hold.permits) &&
        (beliefs.get(other) ?? []).some(({ from, to }) => from <= span.from && span.from < to),
    );
    const weight = inside.reduce((sum, it) => sum + it.weight, 0);
    if (weight <= hold.permits) return [];
    if (inside.some((it) => isLost(history, it, { from: span.from, to: span.from }))) return [];
    const names = inside.map(({ call, process }) => `call ${call} of ${process}`).join(', ');
    return [
      {
        rule: 'exclusion',
        text: `${weight} of ${hold.permits} permits of ${hold.key} at ${Math.round(span.from)}: ${names}`,
      },
    ];
  });
}

function overlapsOf(a: readonly Span[], b: readonly Span[]): readonly Span[] {
  const spans: Span[] = [];
  for (const one of a) {
    for (const other of b) {
      const from = Math.max(one.from, other.from);
      const to = Math.min(one.to, other.to);
      if (from < to) spans.push({ from, to });
    }
  }
  return spans;
}

function describe(a: HoldRecord, b: HoldRecord, { from, to }: Span): string {
  return `call ${a.call} of ${a.process} (${a.claim}) and call ${b.call} of ${b.process} (${b.claim}) both believe in ${a.key} for ${Math.round((to - from) * 10) / 10} ms from ${Math.round(from)} on`;
}
