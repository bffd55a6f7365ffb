import { groupBy } from '../../group-by.mjs';
import { SLACK_MS } from '../../constants.mjs';
import { overlapMs } from '../spans.mjs';

/** A holder that was superseded is told within a lease; a call whose lock was lost says so, and is not let in with it. */
export function losses({ calls, apps, settings }) {
  const findings = [];
  const successors = firstSuccessors(calls);
  for (const call of calls) {
    if (call.enteredAt === undefined) continue;
    const app = apps.get(call.app);
    const wasPaused = app?.pauses.some(({ from, to }) => from <= call.enteredAt && to >= call.askedAt);
    if (call.believedFrom === null && !wasPaused)
      findings.push(`${call.id} "${call.key}": let in with a lock that was lost before`);
    const next = successors.get(call);
    const knewAt = Math.min(call.toldAt ?? Infinity, call.leftAt ?? Infinity, app?.endedAt ?? Infinity);
    if (next && knewAt > next.enteredAt) {
      const tookMs = knewAt - next.enteredAt - overlapMs(app?.pauses ?? [], next.enteredAt, knewAt);
      if (tookMs > settings.leaseMs + SLACK_MS)
        findings.push(
          `${call.id} "${call.key}": superseded by ${next.id}, and told only after ${tookMs.toFixed(0)} ms`,
        );
    }
    if (call.via !== 'acquire' && call.toldAt < call.leftAt && call.outcome === 'done')
      findings.push(`${call.id} "${call.key}": told of its loss, and its call succeeded`);
  }
  return findings;
}

/** For each exclusive hold the one that came in next with a larger token. */
function firstSuccessors(calls) {
  const successors = new Map();
  const exclusive = calls.filter(({ token, mode }) => token !== undefined && mode === 'exclusive');
  for (const holds of groupBy(exclusive, ({ key }) => key).values()) {
    holds.sort((a, b) => a.token - b.token).forEach((hold, i) => successors.set(hold, holds[i + 1]));
  }
  return successors;
}
