// npm run model [-- <rule>]: explores the protocol, and prints the tables of docs/model.md; of a rule, also the trace.
import { LARGE, rowOf, run, SMALL, WITHOUT } from './experiments.js';

const MOST_STATES = 2_000_000;
const [wanted] = process.argv.slice(2);
const chosen = wanted === undefined ? [...SMALL, ...LARGE, ...WITHOUT] : WITHOUT;

console.log('| Rule taken away | World | States | Found |\n| --- | --- | --- | --- |');
for (const experiment of chosen) {
  if (wanted !== undefined && !experiment.off.some((rule) => rule.startsWith(wanted))) continue;
  const found = run(experiment, MOST_STATES);
  console.log(rowOf(experiment, found));
  const isAsExpected = experiment.off.length > 0 && experiment.backup === undefined;
  if ((found.violation !== undefined) !== isAsExpected) process.exitCode = 1;
  if (wanted !== undefined)
    for (const [i, step] of (found.violation?.trace ?? []).entries()) console.log(`${i + 1}. ${step}`);
}
