// npm run soak -- --minutes 10: all kinds mixed, and what processes and Redis use must not grow.
import { readArguments } from './arguments.mjs';
import { KINDS } from './faults/index.mjs';
import { folderOf } from './folders.mjs';
import { readHistory } from './history/read-history.mjs';
import { growth } from './growth.mjs';
import { lineOf, report } from './report.mjs';
import { runTrial } from './trial.mjs';

const { minutes = 10, seed } = readArguments();
const mixed = KINDS.find(({ name }) => name === 'mixed');
const kind = { ...mixed, name: 'soak' };
const folder = folderOf(kind.name, seed);

// Three of four live through it; the faults of processes hit the fourth and those that take its place.
const verdict = await runTrial({ kind, seed, seconds: minutes * 60, folder, traffic: { sparesApps: 3 } });
console.log(lineOf(verdict));
const { lines, findings } = growth(readHistory([`${folder}/history.jsonl`]));
for (const line of lines) console.log(line);
const all = [...verdict.findings, ...findings.map((finding) => ({ rule: 'growth', finding }))];
report([{ ...verdict, findings: all }]);
process.exitCode = all.length > 0 ? 1 : 0;
