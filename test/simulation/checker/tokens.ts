import type { History, HoldRecord, Violation } from '../history/history.js';
import { isSleepHidden } from '../history/hidden-sleep.js';
import { mayBeForgotten, mayBeTaken } from '../history/taken.js';
import { grouped } from './grouped.js';
import { excludes, haveOneToken } from './permit-tokens.js';
import { isShareOf } from './shares.js';
import { mayBeSmaller } from './smaller-tokens.js';

/** docs/guarantees.md, fencing: each grant has a larger token than all earlier ones that it excludes. */
export function checkTokens(history: History, toldWithinMs = Infinity): readonly Violation[] {
  const ofKey = grouped(history.holds, ({ key }) => [key]);
  return [...ofKey.values()]
    .flatMap((holds) => [...pairsOutOfOrder(holds)])
    .flatMap(([a, b]) => {
      if (a.call === b.call || !(excludes(a, b) || haveOneToken(a, b))) return [];
      if (isShareOf(a, b) || mayBeSmaller(history, a, b)) return [];
      // Its lock may have been gone when it was let in.
      const atEntry = { from: b.from, to: b.from };
      if (mayBeTaken(history, b, atEntry, toldWithinMs) || isSleepHidden(history, b.process, b.from))
        return [];
      if (mayBeForgotten(history, a, b)) return [];
      const text = `${b.key}: call ${b.call} of ${b.process} got ${b.token} after call ${a.call} of ${a.process} had ${a.token}`;
      return [{ rule: 'tokens', key: b.key, text }];
    });
}

/** The pairs of which the later one has no larger token. */
function* pairsOutOfOrder(holds: readonly HoldRecord[]): Generator<readonly [HoldRecord, HoldRecord]> {
  for (const [i, a] of holds.entries()) {
    for (let j = i + 1; j < holds.length; j++) {
      const b = holds[j] as HoldRecord;
      if (b.token <= a.token) yield [a, b];
    }
  }
}
