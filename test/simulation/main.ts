// npm run simulate -- --help
import './kernel/light-contexts.js';
import { backendOf } from './backends/backends.js';
import type { Backend } from './backends/backend.js';
import { dataOf } from './data.js';
import { hideHost } from './kernel/host.js';
import { InputError } from './input-error.js';
import { HELP, optionsOf, type Options } from './options.js';
import { drawPlan } from './plan/draw.js';
import type { Plan } from './plan/plan.js';
import { readPlan } from './plan/read-plan.js';
import { judge, replay } from './replay.js';
import { search } from './search.js';
import { runJobs } from './summary/jobs.js';
import { reportAll } from './summary/report.js';

hideHost();
try {
  process.exitCode = (await run(optionsOf(process.argv.slice(2)))) ? 0 : 1;
} catch (error) {
  if (!(error instanceof InputError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}

/** @returns whether all promises were kept */
async function run(options: Options): Promise<boolean> {
  const { store, contestant, seed, plans, shrink, help, jobs, report } = options;
  if (help) {
    console.log(HELP);
    return true;
  }
  if (contestant !== undefined) {
    const { runContestant } = await import('./contestants/main.js');
    return runContestant(contestant, options);
  }
  if (plans.length > 0) {
    const read = await Promise.all(plans.map((file) => readPlan(file)));
    let areGood = true;
    for (const [i, { plan, backend }] of read.entries())
      areGood = (await runFile(plan, backend, plans[i] as string, options)) && areGood;
    return areGood;
  }
  const backend = await backendOf(store);
  if (report) {
    await reportAll(backend, options);
    return true;
  }
  if (jobs !== undefined) return runJobs({ ...options, jobs });
  if (seed === undefined) return search(backend, options);
  return replay(drawPlan(backend, seed), backend, { shrink, words: 'always', name: `seed ${seed}` });
}

async function runFile(
  plan: Plan,
  backend: Backend,
  name: string,
  { json, words, shrink }: Options,
): Promise<boolean> {
  if (!json) return replay(plan, backend, { shrink, words: words ? 'always' : 'if it fails', name });
  const outcome = await judge(plan, backend);
  console.log(JSON.stringify(dataOf(outcome), undefined, 1));
  return outcome.violations.length === 0;
}
