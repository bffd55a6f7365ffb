import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Report } from './report.js';
import { Summary } from './summary.js';

const MAIN = fileURLToPath(new URL('../main.js', import.meta.url));

export interface JobsOptions {
  readonly store: string;
  readonly jobs: number;
  readonly from: number;
  readonly count: number;
  /** Of all jobs together. */
  readonly minutes: number;
  readonly all: boolean;
}

/**
 * Splits seeds over processes, and prints one summary. Without `all` the first failure stops all of them, and so does SIGINT or SIGTERM.
 *
 * @returns whether all seeds ran, and kept their promises
 */
export async function runJobs({ store, jobs, from, count, minutes, all }: JobsOptions): Promise<boolean> {
  const summary = new Summary();
  const children: ChildProcess[] = [];
  let isStopped = false;
  let isWhole = true;
  const stop = (): void => {
    isStopped = true;
    for (const child of children) child.kill('SIGTERM');
  };
  const interrupt = (): void => {
    isWhole = false;
    stop();
  };
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
  const argumentsOf = (job: number): readonly string[] => [
    ...process.execArgv,
    MAIN,
    '--report',
    '--store',
    store,
    '--from',
    String(from + job),
    '--every',
    String(jobs),
    ...(count === Infinity ? [] : ['--count', String(Math.ceil((count - job) / jobs))]),
    ...(minutes === Infinity ? [] : ['--minutes', String(minutes / jobs)]),
  ];
  const run = async (job: number): Promise<void> => {
    const child = spawn(process.execPath, argumentsOf(job), { stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    const closed = new Promise<string>((resolve) => {
      child.on('close', (code, signal) => resolve(signal ?? String(code)));
      child.on('error', (error) => resolve(error.message));
    });
    for await (const line of createInterface(child.stdout)) {
      const report = JSON.parse(line) as Report;
      summary.add(report);
      if (report.failures.length > 0 && !all) stop();
    }
    const end = await closed;
    if (end === '0' || isStopped) return;
    isWhole = false;
    console.log(`Job ${job + 1} ended before its time: ${end}.`);
  };
  // Fewer seeds than jobs leave some without work.
  await Promise.all(Array.from({ length: Math.min(jobs, count) }, (_, job) => run(job)));
  process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
  for (const line of summary.lines(store)) console.log(line);
  if (!isWhole) console.log('Not all seeds ran.');
  return isWhole && summary.failures.length === 0;
}
