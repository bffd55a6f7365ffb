import { without } from './spans.mjs';

/** A caller that was refused asks again after a moment; it has wanted the key all the time. */
const ASKS_AGAIN_MS = 250;

/**
 * When a key was wanted and nobody was inside. Who is frozen neither wants nor is inside.
 *
 * @param {import('../index.d.mts').TrialRecord} trial @param {string} [key] any, if not given
 * @returns {{ from: number, to: number }[]} in order
 */
export function idleSpans({ calls, apps, endedAt, closingFrom }, key) {
  const steps = [];
  const add = (app, from, to, what) => {
    for (const span of without(app?.pauses ?? [], from, Math.min(to, app?.endedAt ?? endedAt, closingFrom))) {
      steps.push({ at: span.from, what, by: 1 }, { at: span.to, what, by: -1 });
    }
  };
  for (const call of calls) {
    if (key !== undefined && call.key !== key) continue;
    const app = apps.get(call.app);
    const isServed = call.enteredAt !== undefined;
    const again = call.settledAt === undefined ? Infinity : call.settledAt + ASKS_AGAIN_MS;
    add(app, call.askedAt, isServed ? call.enteredAt : again, 'wanted');
    if (isServed) add(app, call.enteredAt, call.leftAt ?? Infinity, 'inside');
  }
  return idleBetween(steps.sort((a, b) => a.at - b.at || b.by - a.by));
}

function idleBetween(steps) {
  const spans = [];
  const count = { wanted: 0, inside: 0 };
  let from;
  for (const { at, what, by } of steps) {
    count[what] += by;
    const isIdle = count.wanted > 0 && count.inside === 0;
    if (isIdle && from === undefined) from = at;
    if (!isIdle && from !== undefined) {
      if (at > from) spans.push({ from, to: at });
      from = undefined;
    }
  }
  return spans;
}
