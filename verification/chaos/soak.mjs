import { readArguments } from './arguments.mjs';
import { kindsOf } from './faults/index.mjs';
import { folderOf } from './folders.mjs';
import { readHistory } from './history/read-history.mjs';
import { growth } from './growth.mjs';
import { lineOf, report } from './report.mjs';
import { runTrial } from './trial.mjs';

const HELP = `npm run chaos -- soak [--store redis] [--minutes 10] [--seed 1]

All kinds mixed, on one server, and for Redis then on a quorum; what processes and servers use must not grow.`;

const ALL = [
  { name: 'soak', mix: 'mixed' },
  { name: 'soak-quorum', mix: 'mixed-quorum' },
];

const { store, minutes = 10, seconds = minutes * 60, seed } = readArguments(HELP);
const KINDS = kindsOf(store);
const SOAKS = ALL.filter(({ mix }) => KINDS.some(({ name }) => name === mix));
const verdicts = [];
for (const soaked of SOAKS) verdicts.push(await soak(soaked));
report(verdicts);
process.exitCode = verdicts.some(({ findings }) => findings.length > 0) ? 1 : 0;

/** Three of four processes live through it; the faults of processes hit the fourth and those that take its place. */
async function soak({ name, mix }) {
  const kind = { ...KINDS.find((each) => each.name === mix), name };
  const folder = folderOf({ store, kind: name, seed });
  const options = { store, kind, seed, seconds: seconds / SOAKS.length, folder, traffic: { sparesApps: 3 } };
  const verdict = await runTrial(options);
  console.log(lineOf(verdict));
  const { lines, findings } = growth(readHistory([`${folder}/history.jsonl`]));
  for (const line of lines) console.log(line);
  return {
    ...verdict,
    findings: [...verdict.findings, ...findings.map((finding) => ({ rule: 'growth', finding }))],
  };
}
