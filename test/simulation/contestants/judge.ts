import type { Contestant } from './contestant.js';
import type { HoldRecord, Incident, Match } from './match.js';

export interface Violation {
  readonly rule: 'exclusion' | 'exclusion after a sleep' | 'progress' | 'errors';
  readonly text: string;
}

interface Span {
  readonly from: number;
  readonly to: number;
}

/** So late a holder may notice a loss that its library finds in a timer, beside the round trip that it needs. */
const LEEWAY_MS = 100;

/** While one of these lasts a process does nothing that it could do wrong. */
const PAUSES: ReadonlySet<string> = new Set(['stop', 'suspend', 'block']);

/**
 * Two calls that both believe in one key. Excused is what the libraries name as their limits: the clock of a process or a server was
 * set, or so many servers lost data as the lock cannot survive.
 */
export function checkExclusion(match: Match, contestant: Contestant): readonly Violation[] {
  const { holds, kernel, plan } = match;
  const { least, spread } = plan.latency;
  const leewayMs = contestant.looksInTimers ? LEEWAY_MS + 2 * (least + spread) : 0;
  const noticedMs = leewayMs + (contestant.noticesWithin ?? 0) * plan.watchdogTimeoutMs;
  const violations: Violation[] = [];
  const spans = new Map(holds.map((hold) => [hold, beliefOf(hold, match, noticedMs)]));
  for (const [i, a] of holds.entries()) {
    for (const b of holds.slice(i + 1)) {
      if (a.key !== b.key || b.samples.length === 0 || (a.endedAt ?? kernel.now) <= b.askedAt) continue;
      const both = overlapsOf(spans.get(a) ?? [], spans.get(b) ?? []).find(
        ({ from, to }) => to - from > leewayMs && !isExcused(match, contestant, [a, b], from),
      );
      if (both)
        violations.push({
          rule: hasSlept(match, a, b, both.from) ? 'exclusion after a sleep' : 'exclusion',
          text: `call ${a.call} of ${a.actor.process.name} and call ${b.call} of ${b.actor.process.name} both believe in ${a.key} for ${Math.round(both.to - both.from)} ms from ${Math.round(both.from)} on`,
        });
    }
  }
  return violations;
}

function beliefOf({ samples, endedAt, actor }: HoldRecord, match: Match, noticedMs: number): readonly Span[] {
  const { name } = actor.process;
  const end = endedAt ?? match.kernel.now;
  const pauses = match.incidents.filter(({ kind, of }) => PAUSES.has(kind) && of === name);
  const own = samples.map(({ at, until }, i) => ({
    from: at,
    to: Math.min(until, samples[i + 1]?.at ?? Infinity, end),
  }));
  return pauses.reduce<readonly Span[]>(
    (spans, { at, to }) =>
      spans.flatMap((span) => [
        { from: span.from, to: Math.min(span.to, at) },
        { from: Math.max(span.from, to + noticedMs), to: span.to },
      ]),
    joined(own),
  );
}

/** Samples that follow each other, as one span. */
function joined(spans: readonly Span[]): readonly Span[] {
  const result: Span[] = [];
  for (const span of spans.filter(({ from, to }) => to > from)) {
    const last = result.at(-1);
    if (last?.to === span.from) result[result.length - 1] = { from: last.from, to: span.to };
    else result.push(span);
  }
  return result;
}

function overlapsOf(a: readonly Span[], b: readonly Span[]): readonly Span[] {
  return a.flatMap((one) =>
    b.map((other) => ({ from: Math.max(one.from, other.from), to: Math.min(one.to, other.to) })),
  );
}

/** The machine of one of them was suspended, which the monotonic clock of its timers does not show. */
function hasSlept({ incidents }: Match, a: HoldRecord, b: HoldRecord, at: number): boolean {
  return [a, b].some(({ askedAt, actor }) =>
    incidents.some(
      (it) => it.kind === 'suspend' && it.of === actor.process.name && it.to >= askedAt && it.at <= at,
    ),
  );
}

function isExcused(
  { incidents, plan }: Match,
  { survivesLoss }: Contestant,
  holds: readonly HoldRecord[],
  at: number,
): boolean {
  const since = Math.min(...holds.map(({ askedAt }) => askedAt));
  const during = incidents.filter((it) => it.to >= since && it.at <= at);
  const names = holds.map((it) => it.actor.process.name);
  if (during.some(({ kind, of }) => kind === 'server clock' || (kind === 'clock' && names.includes(of))))
    return true;
  const losesByCrash = plan.storeOptions['afterCrash'] !== 'everything';
  const isLoss = ({ kind }: Incident) => kind === 'forget' || (kind === 'crash server' && losesByCrash);
  const lost = new Set(during.filter(isLoss).map(({ of }) => of)).size;
  // redlock, README: "we can safely take out or fail-over a minority of nodes". redlock-universal: "safe even if nodes crash".
  return lost > (survivesLoss ? 1 : 0);
}
