import type { Backend } from '../backends/backend.js';
import { drawPlan } from '../plan/draw.js';
import { judge } from '../replay.js';
import { countHistory } from './count-history.js';
import { takeCounts } from './counts.js';

/** What one process tells of some histories. */
export interface Report {
  readonly histories: number;
  /** Callbacks that ran. */
  readonly events: number;
  readonly cpuSeconds: number;
  readonly counts: Readonly<Record<string, number>>;
  readonly failures: readonly Failure[];
}

export interface Failure {
  readonly seed: string;
  readonly rule: string;
  readonly text: string;
}

interface Budget {
  readonly from: number;
  readonly count: number;
  readonly minutes: number;
  readonly every: number;
}

const HISTORIES_PER_REPORT = 20;

/** Runs every so manieth seed, and prints a report as JSON after some of them, and at once after a failure. */
export async function reportAll(backend: Backend, { from, count, minutes, every }: Budget): Promise<void> {
  // A failing seed is run again to be read, with its stacks: they take a twentieth of the time.
  Error.stackTraceLimit = 0;
  let reportedSeconds = 0;
  let since = { histories: 0, events: 0, failures: [] as Failure[] };
  const print = (): void => {
    const seconds = cpuSeconds();
    const report: Report = { ...since, cpuSeconds: seconds - reportedSeconds, counts: takeCounts() };
    reportedSeconds = seconds;
    since = { histories: 0, events: 0, failures: [] };
    console.log(JSON.stringify(report));
  };
  for (let done = 0; done < count && cpuSeconds() < minutes * 60; done++) {
    const seed = String(from + done * every);
    const plan = drawPlan(backend, seed);
    const outcome = await judge(plan, backend);
    countHistory(plan, outcome);
    since.histories += 1;
    since.events += outcome.callbacks;
    const [first] = outcome.violations;
    if (first) since.failures.push({ seed, rule: first.rule, text: first.text.split('\n')[0] as string });
    if (first || since.histories === HISTORIES_PER_REPORT) print();
  }
  print();
}

/** Also of the start of this process, which a search pays for, too. */
function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
