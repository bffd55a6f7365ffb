// npm run porcupine -- --help: another judge of the simulation's histories. README.md says how it judges.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { findGo } from './find-go.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const SIMULATION = fileURLToPath(new URL('../../dist/simulation/test/simulation/', import.meta.url));
const PRELOAD = new URL('../chaos/mutants/preload.mjs', import.meta.url).href;
const STORES = ['documents', 'redis', 'quorum', 'etcd', 'zookeeper'];
/** A mutant may never end. */
const MUTANT_MS = 60_000;
const HELP = `npm run porcupine -- [options]

  --store NAME      documents, redis, quorum, etcd or zookeeper; may be given several times, default all
  --from N | tree   the first seed, default 1; tree: one that follows from the commit
  --count N         so many histories of each store, default 100
  --minutes N       instead: for so many minutes of CPU time
  --mutants N       also so many histories of the library with each rule switched off, one after the other
  --file FILE       instead: what npm run simulate -- --export FILE has written; may be given several times`;

const { values } = parseArgs({
  options: {
    store: { type: 'string', multiple: true, default: STORES },
    from: { type: 'string', default: '1' },
    count: { type: 'string', default: '100' },
    minutes: { type: 'string' },
    mutants: { type: 'string' },
    file: { type: 'string', multiple: true },
    help: { type: 'boolean', default: false },
  },
});

if (values.help) console.log(HELP);
else process.exitCode = await main();

/** @returns the exit code */
async function main() {
  const go = findGo();
  if (!go) {
    // CI must have it.
    console.log('skipped: no Go was found, and none could be fetched. Install Go 1.19 or later.');
    return process.env.CI ? 1 : 0;
  }
  const folder = mkdtempSync(join(tmpdir(), 'porcupine-'));
  try {
    const judge = join(folder, 'judge');
    const { status } = spawnSync(go.command, ['build', '-o', judge, '.'], {
      cwd: HERE,
      env: go.env,
      stdio: 'inherit',
    });
    if (status !== 0) return 1;
    const areGood = agree(judge, values.file ?? filesOfLibrary(folder));
    if (values.mutants === undefined) return areGood ? 0 : 1;
    console.log('\nWith one rule switched off:');
    return agree(judge, await filesOfMutants(folder)) && areGood ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** @param {string} folder */
function filesOfLibrary(folder) {
  const { store, from, count, minutes } = values;
  const length = minutes === undefined ? ['--count', count] : ['--minutes', minutes];
  return store.map((each) => {
    const file = join(folder, `${each}.jsonl`);
    const options = ['--store', each, '--from', from, ...length, '--all', '--export', file];
    spawnSync(process.execPath, ['--max-old-space-size=4096', join(SIMULATION, 'main.js'), ...options], {
      stdio: 'inherit',
    });
    return file;
  });
}

/** @param {string} folder */
async function filesOfMutants(folder) {
  const { MUTANTS } = await import(join(SIMULATION, 'mutants/mutants.js'));
  const chosen = MUTANTS.filter(({ store, hidden }) => values.store.includes(store) && hidden === undefined);
  return chosen.flatMap((mutant, i) => {
    const file = join(folder, `mutant-${i}.jsonl`);
    const seeds = ['--from', values.from, '--count', values.mutants];
    const options = ['--store', mutant.store, ...seeds, '--all', '--export', file];
    spawnSync(process.execPath, ['--import', PRELOAD, join(SIMULATION, 'main.js'), ...options], {
      env: { ...process.env, CHAOS_MUTANT: JSON.stringify(mutant) },
      stdio: 'ignore',
      timeout: MUTANT_MS,
    });
    return existsSync(file) ? [file] : [];
  });
}

/** @param {string} judge @param {readonly string[]} files */
function agree(judge, files) {
  return spawnSync(judge, files, { stdio: 'inherit' }).status === 0;
}
