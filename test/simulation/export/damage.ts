import { grouped } from '../checker/grouped.js';
import { excludes } from '../checker/permit-tokens.js';
import type { History, HoldRecord } from '../history/history.js';
import { Dice } from '../kernel/dice.js';

/** Two holds of one key, of which `a` was let in first, and believed in its lock then. */
interface Pair {
  readonly a: HoldRecord;
  readonly b: HoldRecord;
}

interface Damage {
  readonly fits: (pair: Pair) => boolean;
  readonly change: (pair: Pair) => readonly [HoldRecord, HoldRecord];
}

const oneAfterTheOther = ({ a, b }: Pair): boolean => excludes(a, b);
const together =
  (claim: HoldRecord['claim']) =>
  ({ a, b }: Pair): boolean =>
    a.claim === claim && b.claim === claim && b.from < lastBelief(a) && b.from < lastBelief(b);

/** What makes the history of a lock one that no lock may have. */
const DAMAGES: Readonly<Record<string, Damage>> = {
  'let in too early': {
    fits: oneAfterTheOther,
    change: ({ a, b }) => [a, moved(b, (a.from + lastBelief(a)) / 2 - b.from)],
  },
  'believes again': {
    fits: oneAfterTheOther,
    change: ({ a, b }) => {
      const at = Math.max(b.from + 1, (b.from + lastBelief(b)) / 2);
      const samples = [...a.samples.filter((it) => it.at < at), { at, validForMs: 1, until: at + 1 }];
      return [{ ...a, endedAt: at + 1, samples }, b];
    },
  },
  'a token twice': { fits: oneAfterTheOther, change: ({ a, b }) => [a, { ...b, token: a.token }] },
  'two tokens swapped': {
    fits: oneAfterTheOther,
    change: ({ a, b }) => [
      { ...a, token: b.token },
      { ...b, token: a.token },
    ],
  },
  'a reader that writes': {
    fits: together('shared'),
    change: ({ a, b }) => [a, { ...b, claim: 'exclusive' }],
  },
  'a permit too many': { fits: together('permits'), change: ({ a, b }) => [a, { ...b, permits: b.weight }] },
};

interface Damaged {
  readonly damage: string;
  readonly key: string;
  readonly history: History;
}

/** Copies of a history, each with one key damaged in another way. */
export function damaged(history: History, seed: string): readonly Damaged[] {
  const dice = new Dice(`damage ${seed}`);
  const pairs = pairsOf(history);
  return Object.entries(DAMAGES).flatMap(([damage, { fits, change }]) => {
    const fitting = pairs.filter(fits);
    if (fitting.length === 0) return [];
    const pair = dice.pick(fitting);
    const [a, b] = change(pair);
    if (actsInPause(a, history) || actsInPause(b, history)) return [];
    const holds = history.holds
      .map((it) => (it === pair.a ? a : it === pair.b ? b : it))
      .toSorted((one, other) => one.from - other.from);
    const copy = Object.assign(Object.create(history) as History, { holds });
    return [{ damage, key: a.key, history: copy }];
  });
}

/** Neighbours that were let in one after the other. At one and the same moment either may have been first. */
function pairsOf({ holds }: History): readonly Pair[] {
  return [...grouped(holds, ({ key }) => [key]).values()].flatMap((ofKey) => {
    const inOrder = ofKey.filter(hasBelieved).toSorted((one, other) => one.from - other.from);
    const pairs = inOrder.slice(1).map((b, i) => ({ a: inOrder[i] as HoldRecord, b }));
    return pairs.filter(({ a, b }) => a.call !== b.call && a.from < lastBelief(a) && a.from < b.from);
  });
}

function hasBelieved({ samples }: HoldRecord): boolean {
  return samples.some(({ validForMs }) => validForMs > 0);
}

/** No process does anything while it stands still, so no rule speaks of it. */
function actsInPause({ process, samples }: HoldRecord, { pauses }: History): boolean {
  return pauses.some((it) => it.process === process && samples.some(({ at }) => it.from < at && at < it.to));
}

function lastBelief({ samples, endedAt = Infinity }: HoldRecord): number {
  const { until = 0 } = samples.findLast(({ validForMs }) => validForMs > 0) ?? {};
  return Math.min(until, endedAt);
}

function moved(hold: HoldRecord, byMs: number): HoldRecord {
  const { from, endedAt, samples } = hold;
  return {
    ...hold,
    from: from + byMs,
    ...(endedAt !== undefined && { endedAt: endedAt + byMs }),
    samples: samples.map((it) => ({ ...it, at: it.at + byMs, until: it.until + byMs })),
  };
}
