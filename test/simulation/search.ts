import type { Backend } from './backends/backend.js';
import { Exporter } from './export/exporter.js';
import { drawPlan } from './plan/draw.js';
import type { Plan } from './plan/plan.js';
import { judge, replay } from './replay.js';

interface Budget {
  readonly from: number;
  readonly count: number;
  /** Of CPU time, so that a busy machine runs the same number of histories. */
  readonly minutes: number;
  /** Goes on after a failure, and prints one line of each. */
  readonly all: boolean;
  /** Fails only for a broken rule of `SAFETY`. Other failures get a line with their command, and do not count. */
  readonly safety: boolean;
  /** The file to which each history is written. */
  readonly exportTo?: string | undefined;
}

/** The rules whose breach lets two callers work at the same time, or makes their tokens useless. */
const SAFETY: ReadonlySet<string> = new Set(['exclusion', 'tokens', 'belief']);

/** Every so many seeds run twice, and must go the same way. */
const TWICE_EVERY = 50;

/** Runs seeds until one breaks a promise, or the budget is spent. @returns whether all kept their promises */
export async function search(
  backend: Backend,
  { from, count, minutes, all, safety, exportTo }: Budget,
): Promise<boolean> {
  const exporter = exportTo === undefined ? undefined : new Exporter(exportTo);
  const startedCpu = process.cpuUsage();
  // Stacks take a twentieth of the time. A plan that fails runs again to be read, and then it has them.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  let callbacks = 0;
  let failures = 0;
  let reported = 0;
  let done = 0;
  for (; done < count && cpuSeconds(startedCpu) < minutes * 60; done++) {
    const seed = String(from + done);
    // Nothing is exported of the calm, which takes its time.
    const plan: Plan = { ...drawPlan(backend, seed), ...(exporter && { calm: 'without scenes' }) };
    const outcome = await judge(plan, backend);
    callbacks += outcome.callbacks;
    exporter?.add(plan, outcome);
    if (done % TWICE_EVERY === 0 && (await judge(plan, backend)).hash !== outcome.hash) {
      console.log(`Seed ${seed} went two ways.\n${again(backend, `--from ${seed} --count 1`)}`);
      if (!safety) return false;
    }
    const unsafe = outcome.violations.find(({ rule }) => SAFETY.has(rule));
    const first = unsafe ?? outcome.violations[0];
    if (!first) continue;
    if (safety && !unsafe) {
      reported += 1;
      console.log(`seed ${seed}, reported: ${first.rule}: ${first.text.split('\n')[0]}`);
      console.log(again(backend, `--seed ${seed} --shrink`));
      continue;
    }
    failures += 1;
    const seconds = cpuSeconds(startedCpu);
    console.log(
      `seed ${seed} after ${seconds.toFixed(1)} CPU seconds: ${first.rule}: ${first.text.split('\n')[0]}`,
    );
    if (all) continue;
    Error.stackTraceLimit = stackTraceLimit;
    await replay(plan, backend, { shrink: true, words: 'if it fails', name: `seed ${seed}, shrunk` });
    console.log(again(backend, `--seed ${seed} --shrink`));
    return false;
  }
  const seconds = cpuSeconds(startedCpu);
  console.log(
    `${done} histories of ${backend.name} from seed ${from} on, ${failures} with broken promises${safety ? `, ${reported} reported` : ''}, ${(done / seconds).toFixed(1)} a CPU second, ${Math.round(callbacks / Math.max(1, done))} callbacks each`,
  );
  return failures === 0;
}

function again({ name }: Backend, options: string): string {
  return `Again: npm run simulate -- --store ${name} ${options}`;
}

function cpuSeconds(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1e6;
}
