// npm run chaos -- --kind crash-holder --seed 7 --seconds 10
import { readArguments } from './arguments.mjs';
import { KINDS } from './faults/index.mjs';
import { folderOf } from './folders.mjs';
import { checkHistory } from './history/check-history.mjs';
import { readHistory } from './history/read-history.mjs';
import { writeTable } from './markdown.mjs';
import { lineOf, report } from './report.mjs';
import { runTrial } from './trial.mjs';

const HELP = `npm run chaos -- --kind <kind> [--seed 1] [--seconds 10]   one kind of fault; --kind may be repeated;
                                                           --workload shared, permits, several-keys or fair
npm run chaos -- --all [--seed 1] [--seconds 10]           every kind; --markdown <file> writes the table there
npm run chaos -- --smoke [--seed 1]                        a minute of all kinds mixed, with and without readers
npm run chaos -- --check <history.jsonl>                   judges histories again; may be repeated
npm run chaos -- --list                                    the kinds`;

const { kinds, all, smoke, list, check, markdown, seed, seconds, workload } = readArguments();
const traffic = workload ? { workload } : {};
if (list) for (const { name, says } of KINDS) console.log(`${name.padEnd(22)} ${says}`);
else if (check) conclude(check.map((file) => checkHistory(readHistory([file]))));
else if (smoke) await run(['mixed', 'mixed-shared'], seconds ?? 22);
else if (all || kinds.length > 0) await run(all ? KINDS.map(({ name }) => name) : kinds, seconds ?? 10);
else console.log(HELP);

async function run(names, lengthS) {
  const results = [];
  for (const name of names) {
    const kind = KINDS.find((other) => other.name === name);
    if (!kind) throw new Error(`There is no kind "${name}". See npm run chaos -- --list.`);
    const missing = kind.missing?.();
    if (missing) {
      console.log(`${name.padEnd(22)} skipped: ${missing}`);
      continue;
    }
    const result = await runTrial({ kind, seed, seconds: lengthS, folder: folderOf(name, seed), traffic });
    console.log(lineOf(result));
    results.push(result);
  }
  conclude(results);
}

function conclude(results) {
  report(results);
  if (markdown) writeTable(markdown, results);
  process.exitCode = results.some(({ findings }) => findings.length > 0) ? 1 : 0;
}
