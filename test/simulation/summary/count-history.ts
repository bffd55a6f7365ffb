import { ACTS, HOWS, STEPS } from '../plan/check-plan.js';
import type { Asking, Plan } from '../plan/plan.js';
import type { Outcome } from '../replay.js';
import { count } from './counts.js';

/** Names that a summary lists although nothing of them was counted. */
export function expectedCounts(): readonly string[] {
  return [
    ...HOWS.map((it) => `call: ${it}`),
    ...STEPS.map((it) => `step: ${it}`),
    ...ACTS.map((it) => `fault: ${it}`),
    ...ACTS.map((it) => `fault that happened: ${it}`),
  ];
}

/** Counts what a plan asks for, and what became of it. */
export function countHistory({ calls, faults, calm }: Plan, { history }: Outcome): void {
  calls.forEach(countAsking);
  for (const { when, act } of faults) {
    count(`fault: ${act.do}`);
    count(`trigger: ${'message' in when ? 'message' : 'event' in when ? when.event : 'time'}`);
    if ('call' in act) countAsking(act.call);
  }
  if (calm === undefined) count('plans with scenes in the calm');
  for (const { text } of history.lines) {
    const [, what] = /^fault: (.*)$/.exec(text) ?? [];
    if (what !== undefined) count(`fault that happened: ${actIn(what)}`);
  }
  for (const { error, isRefused, isCrashed } of history.calls) {
    const name = error === undefined ? undefined : (error as Error).constructor.name;
    count(`outcome: ${name ?? (isCrashed ? 'crashed' : isRefused ? 'refused' : 'resolved')}`);
  }
  for (const { end } of history.holds) count(`end of a hold: ${end ?? 'none'}`);
}

function actIn(what: string): string {
  if (what.startsWith('the servers come back')) return 'forget';
  return ACTS.toSorted((a, b) => b.length - a.length).find((it) => what.startsWith(`${it} `)) ?? what;
}

function countAsking({ how, options, work, abortAfterMs }: Asking): void {
  count(`call: ${how}`);
  if (abortAfterMs !== undefined) count('option: signal');
  for (const name of Object.keys(options)) count(`option: ${name}`);
  for (const step of work) {
    count(`step: ${step.do}`);
    if ('call' in step) countAsking(step.call);
  }
}
