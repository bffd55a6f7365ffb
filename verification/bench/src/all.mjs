// npm run bench -- all: each store at one commit, in the scenarios and turns that `brief` of it has, and the pages of all.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { fetchRuntime } from '../../../tools/runtimes/index.mjs';
import { BUSY } from './measure/busy-cores.mjs';
import { commitHere } from './measure/commit.mjs';

const MAIN = fileURLToPath(new URL('main.mjs', import.meta.url));
/** The short page and the README have figures of the first. */
const ALL = [
  ['redis', 'redis-cluster', 'redis-acks', 'postgres', 'mysql', 'sqlite'],
  ['etcd', 'etcd-3', 'zookeeper', 'zookeeper-3'],
].flat();
/** Some pictures of the docs have figures of the tables. */
const PICTURES = fileURLToPath(new URL('../../../tools/draw-pictures.mjs', import.meta.url));
/** No store takes as long, unless something hangs. */
const MAX_STORE_MS = 25 * 60_000;
const WARM_UP_S = 1;

const { values } = parseArgs({
  args: process.argv.slice(2).filter((it) => it !== '--'),
  options: {
    stores: { type: 'string', default: ALL.join(',') },
    seconds: { type: 'string', default: '3' },
    busy: { type: 'boolean', default: false },
    out: { type: 'string', default: '.' },
  },
});
const startedAt = performance.now();
const commit = commitHere();
console.log(`All stores at commit ${commit}.`);
for (const store of values.stores.split(',')) {
  const status = run(store);
  const minutes = ((performance.now() - startedAt) / 60_000).toFixed(1);
  console.log(`\n== ${store}: ${status === 0 ? 'written' : 'NOT WRITTEN'}, after ${minutes} minutes in all`);
  if (status !== 0) process.exitCode = 1;
  if (status === BUSY) break;
  if (commitHere() !== commit) throw new Error(`The commit is not ${commit} any more: ${commitHere()}.`);
}

if (values.out === '.') spawnSync(process.execPath, [PICTURES], { stdio: 'inherit' });

/** @param {string} store @returns {number | null} its exit code */
function run(store) {
  const command = runtimeFor(store);
  if (!command) return 1;
  const args = [MAIN, '--store', store, '--brief', '--seconds', values.seconds, '--warm-up', `${WARM_UP_S}`];
  if (values.busy) args.push('--busy');
  args.push('--out', values.out);
  return spawnSync(command, args, { stdio: 'inherit', timeout: MAX_STORE_MS }).status;
}

/** `node:sqlite` came with Node 22. @param {string} store @returns {string | undefined} */
function runtimeFor(store) {
  const isOld = store === 'sqlite' && Number(process.versions.node.split('.')[0]) < 22;
  return isOld ? fetchRuntime('Node 22') : process.execPath;
}
