import type { Backend } from './backends/backend.js';
import { check } from './checker/check.js';
import type { Violation } from './history/history.js';
import { runPlan, type Run } from './history/run-plan.js';
import type { Plan } from './plan/plan.js';
import { shrink } from './shrink.js';

export interface Outcome extends Run {
  readonly violations: readonly Violation[];
}

export async function judge(plan: Plan, backend: Backend): Promise<Outcome> {
  const run = await runPlan(plan, backend);
  return { ...run, violations: check(run.history, plan, backend) };
}

interface Options {
  readonly shrink: boolean;
  readonly words: 'always' | 'if it fails';
  readonly name: string;
}

/** Runs one plan, and prints what happened. @returns whether it kept all promises */
export async function replay(given: Plan, backend: Backend, options: Options): Promise<boolean> {
  let plan = given;
  let outcome = await judge(plan, backend);
  if (options.shrink && outcome.violations.length > 0) {
    plan = await shrunk(plan, outcome, backend);
    outcome = await judge(plan, backend);
  }
  const { violations, history, hash, callbacks } = outcome;
  if (options.words === 'always' || violations.length > 0)
    for (const { at, text } of history.lines) console.log(`${at.toFixed(1).padStart(10)} ${text}`);
  for (const { rule, text } of violations) console.log(`${rule}: ${text}`);
  if (options.shrink && violations.length > 0) console.log(`The shrunk plan:\n${JSON.stringify(plan)}`);
  const seconds = Math.round(history.endedAt / 1000);
  console.log(
    `${options.name}: ${violations.length} broken promises, ${callbacks} callbacks in ${seconds} s of virtual time, hash ${hash}`,
  );
  return violations.length === 0;
}

/** The smallest plan found that breaks the same rule. */
export function shrunk(plan: Plan, { violations }: Outcome, backend: Backend): Promise<Plan> {
  const rule = violations[0]?.rule;
  return shrink(plan, async (shorter) =>
    (await judge(shorter, backend)).violations.some((it) => it.rule === rule),
  );
}
