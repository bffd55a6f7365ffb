import { LATE_MS, LOOK_MS } from '../../constants.mjs';
import { overlapMs } from '../spans.mjs';

/** Every caller is answered: let in, or told why not, by its wait and one command; and when it is done. */
export function answers({ calls, apps, settings, endedAt }) {
  const findings = [];
  const { leaseMs, commandTimeoutMs } = settings;
  for (const call of calls) {
    const app = apps.get(call.app);
    const end = Math.min(app?.endedAt ?? Infinity, endedAt);
    const wasKilled = app?.closedAt === undefined;
    const judge = (from, to, allowedMs, what) => {
      if (to === undefined && wasKilled && end - from < allowedMs + LATE_MS) return;
      const tookMs = (to ?? end) - from - overlapMs(app?.pauses ?? [], from, to ?? end);
      if (tookMs > allowedMs + LATE_MS) {
        findings.push(
          `${call.id} "${call.key}": ${what} only after ${tookMs.toFixed(0)} ms, ${allowedMs} ms allowed`,
        );
      } else if (to === undefined && !wasKilled) findings.push(`${call.id} "${call.key}": never ${what}`);
    };
    judge(call.askedAt, call.enteredAt ?? call.settledAt, call.waitMs + commandTimeoutMs, 'answered');
    // A release that the store does not answer is repeated until lease and place have run out.
    if (call.leftAt !== undefined)
      judge(
        call.leftAt,
        call.settledAt,
        Math.max(leaseMs, 3 * LOOK_MS) + commandTimeoutMs,
        'through with its release',
      );
  }
  return findings;
}
