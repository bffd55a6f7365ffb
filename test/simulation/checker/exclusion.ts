import { isSleepHidden } from '../history/hidden-sleep.js';
import type { History, HoldRecord, Violation } from '../history/history.js';
import { mayBeTaken } from '../history/taken.js';
import { beliefOf, type Span } from './belief.js';
import { firstAfter, grouped } from './grouped.js';
import { isLost } from './lost-leases.js';
import { isShareOf, sharedHoldOf } from './shares.js';

/** docs/guarantees.md, safety: one lock, one holder that believes in it; no more permits than there are. */
export function checkExclusion(history: History, toldWithinMs = Infinity): readonly Violation[] {
  const beliefs = new Map(history.holds.map((hold) => [hold, beliefOf(hold, history)]));
  const isGone = (hold: HoldRecord, span: Span): boolean =>
    isLost(history, hold, span, toldWithinMs) || mayBeTaken(history, hold, span, toldWithinMs);
  const violations: Violation[] = [];
  for (const holds of grouped(history.holds, ({ key }) => [key]).values()) {
    for (const [a, b] of meeting(holds, beliefs)) {
      if (!conflicts(a, b) || isShareOf(a, b)) continue;
      const overlaps = overlapsOf(beliefs.get(a) ?? [], beliefs.get(b) ?? []);
      const both = overlaps.find((span) => !isGone(a, span) && !isGone(b, span));
      if (both) violations.push({ rule: 'exclusion', key: a.key, text: describe(a, b, both) });
    }
  }
  return [
    ...violations,
    ...checkRegained(history, beliefs, isGone),
    ...checkPermits(history, beliefs, isGone),
  ];
}

/** The pairs of which one begins to believe before the other believes for the last time. */
function* meeting(
  holds: readonly HoldRecord[],
  beliefs: ReadonlyMap<HoldRecord, readonly Span[]>,
): Generator<readonly [HoldRecord, HoldRecord]> {
  const believing = holds.flatMap((hold) => {
    const spans = beliefs.get(hold) ?? [];
    const from = Math.min(...spans.map((span) => span.from));
    return spans.length > 0 ? [{ hold, from, to: Math.max(...spans.map((span) => span.to)) }] : [];
  });
  const inOrder = believing.toSorted((a, b) => a.from - b.from);
  for (const [i, a] of inOrder.entries()) {
    for (let j = i + 1; j < inOrder.length; j++) {
      const b = inOrder[j] as (typeof inOrder)[number];
      if (b.from >= a.to) break;
      yield [a.hold, b.hold];
    }
  }
}

/** Whether the servers may have lost or given away the lock of a hold, and its holder need not know it yet. */
type IsGone = (hold: HoldRecord, span: Span) => boolean;

/**
 * A holder does not believe in its lock again once another was granted it, and has believed in it. One that has lost it by force is
 * told of that by its next renewal.
 */
function checkRegained(
  history: History,
  beliefs: ReadonlyMap<HoldRecord, readonly Span[]>,
  isGone: IsGone,
): readonly Violation[] {
  // A caller that is let in after its process has stood still, or while a sleep is hidden from it, may have a lock that is over.
  const firstBeliefOf = (hold: HoldRecord): number | undefined => beliefs.get(hold)?.[0]?.from;
  const inOrder = history.holds.toSorted((a, b) => a.from - b.from);
  const ofKey = grouped(inOrder, ({ key }) => [key]);
  return history.holds.flatMap((a) => {
    const holds = ofKey.get(a.key) ?? [];
    const isNext = (b: HoldRecord): boolean =>
      b.call !== a.call && conflicts(a, b) && !isShareOf(a, b) && firstBeliefOf(b) !== undefined;
    let next = firstAfter(holds, a.from);
    while (next < holds.length && !isNext(holds[next] as HoldRecord)) next += 1;
    const b = holds[next];
    const since = b && firstBeliefOf(b);
    if (!b || since === undefined || isGone(b, { from: since, to: since })) return [];
    const again = a.samples.find(
      ({ at, validForMs }) => at > since && validForMs > 0 && !isGone(a, { from: at, to: at }),
    );
    // Servers that have lost the later grant may have the earlier one again. A force brings none back.
    if (!again || isLost(history, b, { from: again.at, to: again.at })) return [];
    if (isSleepHidden(history, a.process, again.at)) return [];
    const text = `call ${a.call} of ${a.process} believes in ${a.key} at ${Math.round(again.at)}, after it was granted to call ${b.call} of ${b.process}`;
    return [{ rule: 'exclusion', key: a.key, text }];
  });
}

export function conflicts(a: HoldRecord, b: HoldRecord): boolean {
  if (a.claim === 'permits' && b.claim === 'permits') return false;
  return a.claim !== 'shared' || b.claim !== 'shared';
}

function checkPermits(
  history: History,
  beliefs: ReadonlyMap<HoldRecord, readonly Span[]>,
  isGone: IsGone,
): readonly Violation[] {
  const holds = history.holds.filter(({ claim }) => claim === 'permits');
  const textOf = (hold: HoldRecord, span: Span): string | undefined => {
    const counted = holds.filter((other) => other === hold || countsFor(hold, span, { other, beliefs }));
    // Nested calls that share a hold take no permits beside its own.
    const inside = [...new Set(counted.map(sharedHoldOf))];
    const weight = inside.reduce((sum, it) => sum + it.weight, 0);
    if (weight <= hold.permits) return undefined;
    if (inside.some((it) => isGone(it, { from: span.from, to: span.from }))) return undefined;
    const names = inside.map(({ call, process }) => `call ${call} of ${process}`).join(', ');
    return `${weight} of ${hold.permits} permits of ${hold.key} at ${Math.round(span.from)}: ${names}`;
  };
  return holds.flatMap((hold) => {
    // A holder that stopped believing may begin once more, when others have its permits.
    const texts = (beliefs.get(hold) ?? []).flatMap((span) => textOf(hold, span) ?? []);
    return texts.slice(0, 1).map((text) => ({ rule: 'exclusion', key: hold.key, text }));
  });
}

/** Whether `other` holds permits of the same key at the moment when `hold` begins to believe. */
function countsFor(
  hold: HoldRecord,
  span: Span,
  { other, beliefs }: { other: HoldRecord; beliefs: ReadonlyMap<HoldRecord, readonly Span[]> },
): boolean {
  if (other.key !== hold.key) return false;
  // One that was granted later and names more permits counts by its own number.
  if (other.token > hold.token && other.permits > hold.permits) return false;
  const spans = beliefs.get(other) ?? [];
  const isMet = spans.some(({ from, to }) => from <= span.from && span.from < Math.min(to, span.to));
  return isMet || isInside(span, spans);
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
  return [...spans, ...a.filter((it) => isInside(it, b)), ...b.filter((it) => isInside(it, a))];
}

/** Whether a holder whose work takes no time believes while another one does, who may be asked at that very moment. */
function isInside({ from, to }: Span, spans: readonly Span[]): boolean {
  return (
    from === to &&
    spans.some((it) => it.from < from && from <= it.to) &&
    spans.some((it) => it.from <= from && from < it.to)
  );
}

function describe(a: HoldRecord, b: HoldRecord, { from, to }: Span): string {
  return `call ${a.call} of ${a.process} (${a.claim}) and call ${b.call} of ${b.process} (${b.claim}) both believe in ${a.key} for ${Math.round((to - from) * 10) / 10} ms from ${Math.round(from)} on`;
}
