// npm run chaos -- --kind crash-holder --seed 7 --seconds 10
import { readArguments } from './arguments.mjs';
import { kindsOf } from './faults/index.mjs';
import { folderOf } from './folders.mjs';
import { checkHistory } from './history/check-history.mjs';
import { readHistory } from './history/read-history.mjs';
import { writeTable } from './markdown.mjs';
import { convict, MUTANTS } from './mutants/index.mjs';
import { faultsIn, lineOf, report } from './report.mjs';
import { runTrial } from './trial.mjs';

const HELP = `npm run chaos -- [--store redis] …                         on redis, postgres, mysql, mariadb, etcd or zookeeper
npm run chaos -- --kind <kind> [--seed 1] [--seconds 10]   one kind of fault; --kind may be repeated;
                                                           --workload shared, permits, several-keys or fair
npm run chaos -- --all [--seed 1] [--seconds 10]           every kind; --markdown writes verification/chaos/results/<store>.md
npm run chaos -- --all --faults 500                        again and again, with other seeds, until so many were made
npm run chaos -- --smoke [--seed 1]                        a minute of all kinds mixed: locks, readers, a quorum or permits
npm run chaos -- --mutants                                 the library, broken on purpose in one place at a time
npm run chaos -- --check <history.jsonl>                   judges histories again; may be repeated
npm run chaos -- --list                                    the kinds`;

const SMOKE = ['mixed', 'mixed-shared'];
const SMOKE_S = 10;

const { store, kinds, all, smoke, mutants, list, check, markdown, faults, seed, seconds, workload } =
  readArguments(HELP);
const KINDS = kindsOf(store);
const traffic = workload ? { workload } : {};
if (list) for (const { name, says } of KINDS) console.log(`${name.padEnd(22)} ${says}`);
else if (check) conclude(check.map((file) => checkHistory(readHistory([file]))));
else if (mutants) await convictAll();
else if (smoke)
  await run([...SMOKE, store === 'redis' ? 'mixed-quorum' : 'mixed-permits'], seconds ?? SMOKE_S);
else if (all || kinds.length > 0) await run(all ? KINDS.map(({ name }) => name) : kinds, seconds ?? 10);
else console.log(HELP);

/** Each kind once; then those with faults again, in rounds with a seed of their own, until enough were made. */
async function run(names, lengthS) {
  const results = [];
  const isEnough = () => faultsIn(results) >= faults;
  for (let round = 1; ; round++) {
    const before = faultsIn(results);
    for (const name of names) {
      if (round > 1 && (isEnough() || !kindNamed(name).inject)) continue;
      const result = await runOne(name, lengthS, round === 1 ? seed : [seed, round].join('.'));
      if (result) results.push(result);
    }
    if (isEnough() || faultsIn(results) === before) return conclude(results);
  }
}

/** @returns nothing if this machine lacks something for it */
async function runOne(name, lengthS, seedOfRound) {
  const kind = kindNamed(name);
  const missing = kind.missing?.();
  if (missing) {
    console.log(`${name.padEnd(22)} skipped: ${missing}`);
    return undefined;
  }
  const folder = folderOf({ store, kind: name, seed: seedOfRound });
  const verdict = await runTrial({ store, kind, seed: seedOfRound, seconds: lengthS, folder, traffic });
  console.log(lineOf(verdict));
  return verdict;
}

async function convictAll() {
  let free = 0;
  const mutants = MUTANTS.filter((mutant) => (mutant.store ?? 'redis') === store);
  for (const mutant of mutants) {
    const rules = await convict(mutant, { kind: kindNamed(mutant.kind), seconds: seconds ?? 10 });
    const isConvicted = mutant.rules.some((rule) => rules.includes(rule));
    console.log(
      `${isConvicted ? 'convicted' : 'GOES FREE'}  ${mutant.says}: ${mutant.kind}: ${rules.join(', ')}`,
    );
    if (!isConvicted) free += 1;
  }
  console.log(`${mutants.length - free} convicted, ${free} go free`);
  process.exitCode = free > 0 ? 1 : 0;
}

/** @throws Error if there is none */
function kindNamed(name) {
  const kind = KINDS.find((other) => other.name === name);
  if (!kind)
    throw new Error(`There is no kind "${name}" for ${store}. See npm run chaos -- --store ${store} --list.`);
  return kind;
}

function conclude(results) {
  report(results);
  if (markdown) writeTable(results);
  process.exitCode = results.some(({ findings }) => findings.length > 0) ? 1 : 0;
}
