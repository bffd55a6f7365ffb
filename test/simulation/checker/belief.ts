import { hiddenSleeps } from '../history/hidden-sleep.js';
import type { History, HoldRecord, Pause } from '../history/history.js';

/** A time, from and to in true ms, in which a process runs and believes in its lock. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/**
 * When the holder believes in its lock. What it was told at one moment (`validForMs`) is true until it runs out, is told
 * something else, or ends; after a suspend, or a clock that was set, only until then. While its process is stopped, or blocks its event
 * loop, it does nothing. A sleep that its clocks hide it cannot know of.
 */
export function beliefOf(hold: HoldRecord, history: History): readonly Span[] {
  const { pauses, endedAt } = history;
  const own = pauses.filter(({ process }) => process === hold.process);
  const breaks = own.filter(({ kind }) => kind === 'suspend' || kind === 'clock' || kind === 'rate');
  const stops = [
    ...own.filter(({ kind }) => kind === 'stop' || kind === 'suspend' || kind === 'block'),
    ...hiddenSleeps(history, hold.process),
  ];
  const end = hold.endedAt ?? endedAt;
  return hold.samples.flatMap(({ at, validForMs, until }, i) => {
    const next = hold.samples[i + 1]?.at ?? Infinity;
    const isBroken = breaks.map(({ from }) => from).filter((from) => from >= at);
    const to = Math.min(until, next, end, ...isBroken);
    // At the moment itself it believes, even if it is told something else at once.
    const span = { from: at, to: validForMs > 0 ? Math.max(to, Math.min(at, end)) : at };
    return validForMs > 0 ? without(span, stops) : [];
  });
}

function without(span: Span, stops: readonly Pause[]): readonly Span[] {
  let spans: readonly Span[] = [span];
  for (const { from, to } of stops) {
    spans = spans.flatMap((each) => {
      if (to <= each.from || from >= each.to) return [each];
      const [before, after] = [
        { from: each.from, to: Math.min(each.to, from) },
        { from: Math.max(each.from, to), to: each.to },
      ];
      // It was asked right before its process stood still.
      return [...(before.to >= before.from ? [before] : []), ...(after.to > after.from ? [after] : [])];
    });
  }
  return spans;
}
